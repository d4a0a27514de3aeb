"""The command ``petacomm``."""
