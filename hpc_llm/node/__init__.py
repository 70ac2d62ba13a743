"""What happens on a compute node around the work."""
