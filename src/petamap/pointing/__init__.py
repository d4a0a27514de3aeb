"""Compressed pointing: sparse boresight quaternions to pixels and response angles of any detector."""
