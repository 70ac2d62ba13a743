"""What Slurm is: time and node-list formats, limits, states, templates. Pure, but for `client`."""
