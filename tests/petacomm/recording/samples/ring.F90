! Exchange of a ring, with the interface to MPI that the preprocessor chooses, and some collectives.
program ring
#if defined(F08)
   use mpi_f08
   implicit none
   type(MPI_Comm) :: half
   type(MPI_Request) :: requests(4), prepared
#elif defined(MODULE)
   use mpi
   implicit none
   integer :: half, requests(4), prepared
#else
   implicit none
   include 'mpif.h'
   integer :: half, requests(4), prepared
#endif
   integer :: rank, n_ranks, next, last, step, ierr
   real(8) :: face(1000), into(1000, 2), total(4), all_of(16)
   call MPI_Init(ierr)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
   call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, ierr)
   next = mod(rank + 1, n_ranks)
   last = mod(rank + n_ranks - 1, n_ranks)
   face = rank
   do step = 1, 5
      call MPI_Irecv(into(1, 1), 1000, MPI_DOUBLE_PRECISION, last, 0, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Irecv(into(1, 2), 1000, MPI_DOUBLE_PRECISION, next, 1, MPI_COMM_WORLD, requests(2), ierr)
      call MPI_Isend(face, 1000, MPI_DOUBLE_PRECISION, next, 0, MPI_COMM_WORLD, requests(3), ierr)
      call MPI_Isend(face, 1000, MPI_DOUBLE_PRECISION, last, 1, MPI_COMM_WORLD, requests(4), ierr)
      call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
   end do
   call MPI_Pcontrol(1)
   call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierr)
   call MPI_Sendrecv_replace(face, 10, MPI_DOUBLE_PRECISION, 0, 2, MPI_ANY_SOURCE, 2, MPI_COMM_SELF, &
                             MPI_STATUS_IGNORE, ierr)
   call MPI_Send_init(face, 7, MPI_DOUBLE_PRECISION, next, 3, MPI_COMM_WORLD, prepared, ierr)
   do step = 1, 2
      call MPI_Irecv(into, 7, MPI_DOUBLE_PRECISION, last, 3, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Start(prepared, ierr)
      call MPI_Wait(prepared, MPI_STATUS_IGNORE, ierr)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
   end do
   call MPI_Request_free(prepared, ierr)
   total = 1
   call MPI_Allreduce(MPI_IN_PLACE, total, 4, MPI_DOUBLE_PRECISION, MPI_SUM, half, ierr)
   call MPI_Bcast(face, 100, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierr)
   call MPI_Alltoall(face, 3, MPI_DOUBLE_PRECISION, all_of, 3, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
   call MPI_Barrier(MPI_COMM_WORLD, ierr)
   call MPI_Comm_free(half, ierr)
   call MPI_Finalize(ierr)
end program
