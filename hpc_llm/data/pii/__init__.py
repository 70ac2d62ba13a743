"""Personal data in text: e-mail addresses, public IP addresses, phone numbers."""
