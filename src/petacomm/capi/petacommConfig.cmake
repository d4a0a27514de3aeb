# find_package(petacomm): the target petacomm::petacomm, compiled with the MPI and the C compiler of the project; with
# COMPONENTS Fortran also petacomm::fortran, the module and the library.
#
#     python -m venv env && env/bin/pip install petacomm-or-petamap
#     cmake -B build -Dpetacomm_DIR=$(env/bin/petacomm config --cmake) -DPETACOMM_PYTHON=env/bin/python
include(CMakeFindDependencyMacro)
enable_language(C)
find_dependency(MPI COMPONENTS C)
set(PETACOMM_PYTHON python3 CACHE FILEPATH "interpreter of the environment in which petacomm is")
execute_process(
  COMMAND ${PETACOMM_PYTHON} -c "from petacomm.capi import compile_words; print(';'.join(compile_words()), end='')"
  OUTPUT_VARIABLE PETACOMM_WORDS
  RESULT_VARIABLE PETACOMM_FAILED)
if(PETACOMM_FAILED)
  set(petacomm_FOUND FALSE)
  set(petacomm_NOT_FOUND_MESSAGE "${PETACOMM_PYTHON} has no petacomm: set PETACOMM_PYTHON")
  return()
endif()

if(NOT TARGET petacomm::petacomm)
  list(POP_FRONT PETACOMM_WORDS PETACOMM_SOURCE)
  set(PETACOMM_COMPILE ${PETACOMM_WORDS})
  list(FILTER PETACOMM_COMPILE INCLUDE REGEX "^-[DI]")
  list(FILTER PETACOMM_WORDS EXCLUDE REGEX "^-[DI]")
  add_library(petacomm STATIC ${PETACOMM_SOURCE})
  add_library(petacomm::petacomm ALIAS petacomm)
  target_compile_options(petacomm PRIVATE ${PETACOMM_COMPILE})
  target_include_directories(petacomm PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(petacomm PUBLIC MPI::MPI_C ${PETACOMM_WORDS})
endif()

if("Fortran" IN_LIST petacomm_FIND_COMPONENTS AND NOT TARGET petacomm::fortran)
  enable_language(Fortran)
  find_dependency(MPI COMPONENTS Fortran)
  add_library(petacomm_fortran STATIC ${CMAKE_CURRENT_LIST_DIR}/petacomm.f90)
  add_library(petacomm::fortran ALIAS petacomm_fortran)
  set(PETACOMM_MODULES ${CMAKE_CURRENT_BINARY_DIR}/petacomm_modules)
  set_target_properties(petacomm_fortran PROPERTIES Fortran_MODULE_DIRECTORY ${PETACOMM_MODULES})
  target_include_directories(petacomm_fortran PUBLIC ${PETACOMM_MODULES})
  target_link_libraries(petacomm_fortran PUBLIC petacomm::petacomm MPI::MPI_Fortran)
endif()
