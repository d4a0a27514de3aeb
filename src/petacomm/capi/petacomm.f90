! petacomm for Fortran: the functions of petacomm.h. Communicators are those of `use mpi`; of `use mpi_f08`, give
! comm%MPI_VAL. Texts end with c_null_char; the empty text is C's NULL. Calls with halves take contiguous arrays: of a
! section with gaps, the compiler would pass a copy that is gone before the second half; they return an error.
module petacomm
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: PETACOMM_DOUBLE = 0, PETACOMM_FLOAT, PETACOMM_INT64, PETACOMM_UINT8
  end enum
  enum, bind(c)
    enumerator :: PETACOMM_SUM = 0, PETACOMM_MAX, PETACOMM_MIN, PETACOMM_OR
  end enum

  interface
    integer(c_int) function petacomm_plan_create(comm, n_keys, keys, algorithm, plan) &
        bind(c, name="petacomm_plan_create_f")
      import
      integer(c_int), value :: comm
      integer(c_int64_t), value :: n_keys
      integer(c_int64_t), intent(in) :: keys(*)
      character(kind=c_char), intent(in) :: algorithm(*)
      type(c_ptr), intent(out) :: plan
    end function

    integer(c_int) function petacomm_allreduce(plan, values, width, kind, op, exact) bind(c)
      import
      type(c_ptr), value :: plan
      type(*), intent(inout) :: values(*)
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind, op, exact
    end function

    integer(c_int) function allreduce_begin(plan, values, width, kind, op, exact) &
        bind(c, name="petacomm_allreduce_begin")
      import
      type(c_ptr), value :: plan, values
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind, op, exact
    end function

    integer(c_int) function petacomm_allreduce_end(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end function

    integer(c_int) function petacomm_reduce(plan, values, width, kind, op, exact) bind(c)
      import
      type(c_ptr), value :: plan
      type(*), intent(inout) :: values(*)
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind, op, exact
    end function

    integer(c_int) function petacomm_broadcast(plan, values, width, kind) bind(c)
      import
      type(c_ptr), value :: plan
      type(*), intent(inout) :: values(*)
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind
    end function

    integer(c_int) function petacomm_plan_owners(plan, owned, multiplicity) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int8_t), intent(out) :: owned(*)
      integer(c_int32_t), intent(out) :: multiplicity(*)
    end function

    integer(c_int) function petacomm_plan_n_global(plan, n_global) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int64_t), intent(out) :: n_global
    end function

    integer(c_int) function petacomm_plan_free(plan) bind(c)
      import
      type(c_ptr), intent(inout) :: plan
    end function

    integer(c_int) function petacomm_halo_create(comm, n_owned, owned_keys, n_ghosts, ghost_keys, halo) &
        bind(c, name="petacomm_halo_create_f")
      import
      integer(c_int), value :: comm
      integer(c_int64_t), value :: n_owned, n_ghosts
      integer(c_int64_t), intent(in) :: owned_keys(*), ghost_keys(*)
      type(c_ptr), intent(out) :: halo
    end function

    integer(c_int) function petacomm_halo_exchange(halo, values, width, kind) bind(c)
      import
      type(c_ptr), value :: halo
      type(*), intent(inout) :: values(*)
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind
    end function

    integer(c_int) function halo_exchange_begin(halo, values, width, kind) &
        bind(c, name="petacomm_halo_exchange_begin")
      import
      type(c_ptr), value :: halo, values
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind
    end function

    integer(c_int) function petacomm_halo_exchange_end(halo) bind(c)
      import
      type(c_ptr), value :: halo
    end function

    integer(c_int) function petacomm_halo_reduce(halo, values, width, kind, op) bind(c)
      import
      type(c_ptr), value :: halo
      type(*), intent(inout) :: values(*)
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind, op
    end function

    integer(c_int) function halo_reduce_begin(halo, values, width, kind, op) &
        bind(c, name="petacomm_halo_reduce_begin")
      import
      type(c_ptr), value :: halo, values
      integer(c_int64_t), value :: width
      integer(c_int), value :: kind, op
    end function

    integer(c_int) function petacomm_halo_reduce_end(halo) bind(c)
      import
      type(c_ptr), value :: halo
    end function

    integer(c_int) function petacomm_halo_owners(halo, owners) bind(c)
      import
      type(c_ptr), value :: halo
      integer(c_int32_t), intent(out) :: owners(*)
    end function

    integer(c_int) function petacomm_halo_free(halo) bind(c)
      import
      type(c_ptr), intent(inout) :: halo
    end function

    integer(c_int) function petacomm_redistribution_create(comm, n_axes, shape, grid_before, order_before, &
        grid_after, order_after, element_bytes, plan) bind(c, name="petacomm_redistribution_create_f")
      import
      integer(c_int), value :: comm, n_axes
      integer(c_int64_t), intent(in) :: shape(*), grid_before(*), order_before(*), grid_after(*), order_after(*)
      integer(c_int64_t), value :: element_bytes
      type(c_ptr), intent(out) :: plan
    end function

    integer(c_int) function petacomm_redistribution_shapes(plan, before, after) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int64_t), intent(out) :: before(*), after(*)
    end function

    integer(c_int) function petacomm_redistribute(plan, before, after) bind(c)
      import
      type(c_ptr), value :: plan
      type(*), intent(in) :: before(*)
      type(*), intent(inout) :: after(*)
    end function

    integer(c_int) function petacomm_redistribution_free(plan) bind(c)
      import
      type(c_ptr), intent(inout) :: plan
    end function

    integer(c_int) function petacomm_reorder(comm, n_targets, targets, bytes, reordered) &
        bind(c, name="petacomm_reorder_f")
      import
      integer(c_int), value :: comm
      integer(c_int64_t), value :: n_targets
      integer(c_int64_t), intent(in) :: targets(*)
      real(c_double), intent(in) :: bytes(*)
      integer(c_int), intent(out) :: reordered
    end function

    type(c_ptr) function petacomm_error_message() bind(c)
      import
    end function

    integer(c_int) function refuse_section() bind(c, name="petacomm_refuse_section_f")
      import
    end function
  end interface
  private :: halo_exchange_begin, halo_reduce_begin, allreduce_begin, refuse_section

contains

  integer(c_int) function petacomm_allreduce_begin(plan, values, width, kind, op, exact) result(code)
    type(c_ptr), intent(in) :: plan
    type(*), intent(inout), target, asynchronous :: values(..)
    integer(c_int64_t), intent(in) :: width
    integer(c_int), intent(in) :: kind, op, exact
    if (is_contiguous(values)) then
      code = allreduce_begin(plan, c_loc(values), width, kind, op, exact)
    else
      code = refuse_section()
    end if
  end function

  integer(c_int) function petacomm_halo_exchange_begin(halo, values, width, kind) result(code)
    type(c_ptr), intent(in) :: halo
    type(*), intent(inout), target, asynchronous :: values(..)
    integer(c_int64_t), intent(in) :: width
    integer(c_int), intent(in) :: kind
    if (is_contiguous(values)) then
      code = halo_exchange_begin(halo, c_loc(values), width, kind)
    else
      code = refuse_section()
    end if
  end function

  integer(c_int) function petacomm_halo_reduce_begin(halo, values, width, kind, op) result(code)
    type(c_ptr), intent(in) :: halo
    type(*), intent(inout), target, asynchronous :: values(..)
    integer(c_int64_t), intent(in) :: width
    integer(c_int), intent(in) :: kind, op
    if (is_contiguous(values)) then
      code = halo_reduce_begin(halo, c_loc(values), width, kind, op)
    else
      code = refuse_section()
    end if
  end function
end module petacomm
