"""The communicator: mpi4py where it is there, one process where it is not."""
