/* The functions of petacomm.h: petacomm itself, in a Python interpreter in this process.
 *
 * Arrays are handed over by address, and are not copied on the way; communicators as Fortran's handles, which
 * do not depend on how mpi4py was compiled. The interpreter starts with the first call, and is that which
 * `petacomm config` told: PETACOMM_PYTHON_HEX is its path in hexadecimal digits, which no shell and no macro
 * changes. */
#define PY_SSIZE_T_CLEAN
/* clang-format off: Python's header comes before all others */
#include <Python.h>
/* clang-format on */
#include <stdio.h>
#include <stdlib.h>

#include "petacomm.h"

#ifndef PETACOMM_PYTHON_HEX
#error "compile this with the words that `petacomm config` prints"
#endif

struct petacomm_plan {
    PyObject* object;
};
struct petacomm_halo {
    PyObject* object;
};
struct petacomm_redistribution {
    PyObject* object;
};

static char message[2048];
static PyObject* calls; /* the module petacomm.capi.calls */

const char* petacomm_error_message(void) { return message; }

static int fail(const char* text) {
    snprintf(message, sizeof message, "%s", text);
    return 1;
}

#define DIGITS_OF(name) #name
#define DIGITS(name) DIGITS_OF(name)

/* The path of the interpreter; `x` before the digits makes them a name. */
static void python_path(char* path, size_t size) {
    const char *digits = DIGITS(PETACOMM_PYTHON_HEX) + 1, *given = getenv("PETACOMM_PYTHON");
    size_t n = 0;
    unsigned byte;
    if (given) {
        snprintf(path, size, "%s", given);
        return;
    }
    for (; n + 1 < size && sscanf(digits + 2 * n, "%2x", &byte) == 1; ++n) path[n] = (char)byte;
    path[n] = 0;
}

static int start_python(void) {
    char path[4096];
    PyConfig config;
    PyStatus status;
    python_path(path, sizeof path);
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0; /* they are the program's */
    config.parse_argv = 0;
    status = PyConfig_SetBytesString(&config, &config.program_name, path);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) return fail(status.err_msg ? status.err_msg : "Python does not start");
    PyEval_SaveThread();
    return 0;
}

/* For petacomm.f90: an error of an array section with gaps. */
int petacomm_refuse_section_f(void) {
    return fail(
        "an array section with gaps in memory, of which there would be a copy alone "
        "(give a contiguous array to calls that only begin)");
}

/* Keep what Python has raised as the message. */
static int failed(void) {
    PyObject *type, *value, *trace, *text = NULL;
    const char* said = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (calls && value) text = PyObject_CallMethod(calls, "error_text", "O", value);
    if (!text) {
        PyErr_Clear();
        text = value ? PyObject_Str(value) : NULL;
    }
    if (text) said = PyUnicode_AsUTF8(text);
    fail(said ? said : "an error that cannot be told");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return 1;
}

/* Call a function of petacomm.capi.calls; NULL if it failed. The interpreter must be held. */
static PyObject* call(const char* name, const char* format, ...) {
    PyObject *function, *arguments, *result = NULL;
    va_list list;
    if (!calls && !(calls = PyImport_ImportModule("petacomm.capi.calls"))) return NULL;
    va_start(list, format);
    arguments = Py_VaBuildValue(format, list);
    va_end(list);
    function = arguments ? PyObject_GetAttrString(calls, name) : NULL;
    if (function) result = PyObject_CallObject(function, arguments);
    Py_XDECREF(function);
    Py_XDECREF(arguments);
    return result;
}

#define ADDRESS(pointer) ((long long)(intptr_t)(pointer))

/* Hold the interpreter while `expression` makes an object, which `use` takes over where there is one. */
#define WITH_PYTHON(expression, use)                              \
    do {                                                          \
        PyGILState_STATE state;                                   \
        PyObject* result;                                         \
        int code = 0;                                             \
        if (!Py_IsInitialized() && start_python() != 0) return 1; \
        state = PyGILState_Ensure();                              \
        result = (expression);                                    \
        if (result) {                                             \
            use;                                                  \
            Py_XDECREF(result);                                   \
        } else {                                                  \
            code = failed();                                      \
        }                                                         \
        PyGILState_Release(state);                                \
        return code;                                              \
    } while (0)

#define NOTHING_TO_DO ((void)0)
#define NEEDS(plan) \
    if (!(plan)) return fail("a plan that was not made, or is freed")

/* Before `*place` is written: what is made would be lost. */
#define NEEDS_PLACE(place) \
    if (!(place)) return fail("NULL in the place of what is to be written (give an address)")

/* Keep a result in a structure of its own. */
#define KEEP_IN(type, plan)                             \
    do {                                                \
        if (!(*(plan) = (type*)malloc(sizeof(type)))) { \
            code = fail("there is no memory left");     \
        } else {                                        \
            (*(plan))->object = result;                 \
            result = NULL;                              \
        }                                               \
    } while (0)

int petacomm_plan_create(MPI_Comm comm, int64_t n_keys, const int64_t* keys, const char* algorithm,
                         petacomm_plan** plan) {
    NEEDS_PLACE(plan);
    *plan = NULL;
    WITH_PYTHON(call("reduction_plan", "(iLLz)", (int)MPI_Comm_c2f(comm), (long long)n_keys, ADDRESS(keys),
                     algorithm),
                KEEP_IN(petacomm_plan, plan));
}

static int reduction(const char* verb, petacomm_plan* plan, void* values, int64_t width, petacomm_type type,
                     petacomm_op op, int exact) {
    NEEDS(plan);
    WITH_PYTHON(call("reduction", "(sOLLiii)", verb, plan->object, ADDRESS(values), (long long)width,
                     (int)type, (int)op, exact),
                NOTHING_TO_DO);
}

int petacomm_allreduce(petacomm_plan* plan, void* values, int64_t width, petacomm_type type, petacomm_op op,
                       int exact) {
    return reduction("allreduce", plan, values, width, type, op, exact);
}

int petacomm_reduce(petacomm_plan* plan, void* values, int64_t width, petacomm_type type, petacomm_op op,
                    int exact) {
    return reduction("reduce", plan, values, width, type, op, exact);
}

int petacomm_allreduce_begin(petacomm_plan* plan, void* values, int64_t width, petacomm_type type,
                             petacomm_op op, int exact) {
    return reduction("allreduce_begin", plan, values, width, type, op, exact);
}

int petacomm_allreduce_end(petacomm_plan* plan) {
    NEEDS(plan);
    WITH_PYTHON(PyObject_CallMethod(plan->object, "allreduce_end", NULL), NOTHING_TO_DO);
}

int petacomm_broadcast(petacomm_plan* plan, void* values, int64_t width, petacomm_type type) {
    NEEDS(plan);
    WITH_PYTHON(call("fill_ghosts", "(OLLi)", plan->object, ADDRESS(values), (long long)width, (int)type),
                NOTHING_TO_DO);
}

int petacomm_plan_owners(petacomm_plan* plan, uint8_t* owned, int32_t* multiplicity) {
    NEEDS(plan);
    WITH_PYTHON(call("owners", "(OLL)", plan->object, ADDRESS(owned), ADDRESS(multiplicity)), NOTHING_TO_DO);
}

int petacomm_plan_n_global(petacomm_plan* plan, int64_t* n_global) {
    NEEDS(plan);
    NEEDS_PLACE(n_global);
    WITH_PYTHON(PyObject_GetAttrString(plan->object, "n_global"), *n_global = PyLong_AsLongLong(result));
}

int petacomm_halo_create(MPI_Comm comm, int64_t n_owned, const int64_t* owned_keys, int64_t n_ghosts,
                         const int64_t* ghost_keys, petacomm_halo** halo) {
    NEEDS_PLACE(halo);
    *halo = NULL;
    WITH_PYTHON(call("halo", "(iLLLL)", (int)MPI_Comm_c2f(comm), (long long)n_owned, ADDRESS(owned_keys),
                     (long long)n_ghosts, ADDRESS(ghost_keys)),
                KEEP_IN(petacomm_halo, halo));
}

static int halo_exchange(const char* verb, petacomm_halo* halo, void* values, int64_t width,
                         petacomm_type type) {
    NEEDS(halo);
    WITH_PYTHON(
        call("halo_exchange", "(sOLLi)", verb, halo->object, ADDRESS(values), (long long)width, (int)type),
        NOTHING_TO_DO);
}

int petacomm_halo_exchange(petacomm_halo* halo, void* values, int64_t width, petacomm_type type) {
    return halo_exchange("exchange", halo, values, width, type);
}

int petacomm_halo_exchange_begin(petacomm_halo* halo, void* values, int64_t width, petacomm_type type) {
    return halo_exchange("exchange_begin", halo, values, width, type);
}

int petacomm_halo_exchange_end(petacomm_halo* halo) {
    NEEDS(halo);
    WITH_PYTHON(PyObject_CallMethod(halo->object, "exchange_end", NULL), NOTHING_TO_DO);
}

static int halo_reduction(const char* verb, petacomm_halo* halo, void* values, int64_t width,
                          petacomm_type type, petacomm_op op) {
    NEEDS(halo);
    WITH_PYTHON(call("halo_reduction", "(sOLLii)", verb, halo->object, ADDRESS(values), (long long)width,
                     (int)type, (int)op),
                NOTHING_TO_DO);
}

int petacomm_halo_reduce(petacomm_halo* halo, void* values, int64_t width, petacomm_type type,
                         petacomm_op op) {
    return halo_reduction("reduce", halo, values, width, type, op);
}

int petacomm_halo_reduce_begin(petacomm_halo* halo, void* values, int64_t width, petacomm_type type,
                               petacomm_op op) {
    return halo_reduction("reduce_begin", halo, values, width, type, op);
}

int petacomm_halo_reduce_end(petacomm_halo* halo) {
    NEEDS(halo);
    WITH_PYTHON(PyObject_CallMethod(halo->object, "reduce_end", NULL), NOTHING_TO_DO);
}

int petacomm_halo_owners(petacomm_halo* halo, int32_t* owners) {
    NEEDS(halo);
    WITH_PYTHON(call("halo_owners", "(OL)", halo->object, ADDRESS(owners)), NOTHING_TO_DO);
}

int petacomm_redistribution_create(MPI_Comm comm, int n_axes, const int64_t* shape,
                                   const int64_t* grid_before, const int64_t* order_before,
                                   const int64_t* grid_after, const int64_t* order_after,
                                   int64_t element_bytes, petacomm_redistribution** plan) {
    NEEDS_PLACE(plan);
    *plan = NULL;
    WITH_PYTHON(call("redistribution", "(iiLLLLLL)", (int)MPI_Comm_c2f(comm), n_axes, ADDRESS(shape),
                     ADDRESS(grid_before), ADDRESS(order_before), ADDRESS(grid_after), ADDRESS(order_after),
                     (long long)element_bytes),
                KEEP_IN(petacomm_redistribution, plan));
}

int petacomm_redistribution_shapes(petacomm_redistribution* plan, int64_t* before, int64_t* after) {
    NEEDS(plan);
    WITH_PYTHON(call("local_shapes", "(OLL)", plan->object, ADDRESS(before), ADDRESS(after)), NOTHING_TO_DO);
}

int petacomm_redistribute(petacomm_redistribution* plan, const void* before, void* after) {
    NEEDS(plan);
    WITH_PYTHON(call("redistribute", "(OLL)", plan->object, ADDRESS(before), ADDRESS(after)), NOTHING_TO_DO);
}

int petacomm_reorder(MPI_Comm comm, int64_t n_targets, const int64_t* targets, const double* bytes,
                     MPI_Comm* reordered) {
    NEEDS_PLACE(reordered);
    *reordered = MPI_COMM_NULL;
    WITH_PYTHON(call("reordered_handle", "(iLLL)", (int)MPI_Comm_c2f(comm), (long long)n_targets,
                     ADDRESS(targets), ADDRESS(bytes)),
                *reordered = MPI_Comm_f2c((MPI_Fint)PyLong_AsLong(result)));
}

/* Release a plan's object and its structure. */
static int release(PyObject* object, void* structure) {
    NEEDS(object);
    free(structure);
    WITH_PYTHON(call("release", "(N)", object), NOTHING_TO_DO);
}

int petacomm_plan_free(petacomm_plan** plan) {
    petacomm_plan* given = plan ? *plan : NULL;
    if (plan) *plan = NULL;
    return release(given ? given->object : NULL, given);
}

int petacomm_halo_free(petacomm_halo** halo) {
    petacomm_halo* given = halo ? *halo : NULL;
    if (halo) *halo = NULL;
    return release(given ? given->object : NULL, given);
}

int petacomm_redistribution_free(petacomm_redistribution** plan) {
    petacomm_redistribution* given = plan ? *plan : NULL;
    if (plan) *plan = NULL;
    return release(given ? given->object : NULL, given);
}

/* Fortran's handles of communicators; as C has them where a compiler of C++ reads this. */
#ifdef __cplusplus
extern "C" {
#endif

int petacomm_plan_create_f(MPI_Fint comm, int64_t n_keys, const int64_t* keys, const char* algorithm,
                           petacomm_plan** plan) {
    return petacomm_plan_create(MPI_Comm_f2c(comm), n_keys, keys, algorithm && *algorithm ? algorithm : NULL,
                                plan);
}

int petacomm_halo_create_f(MPI_Fint comm, int64_t n_owned, const int64_t* owned_keys, int64_t n_ghosts,
                           const int64_t* ghost_keys, petacomm_halo** halo) {
    return petacomm_halo_create(MPI_Comm_f2c(comm), n_owned, owned_keys, n_ghosts, ghost_keys, halo);
}

int petacomm_redistribution_create_f(MPI_Fint comm, int n_axes, const int64_t* shape,
                                     const int64_t* grid_before, const int64_t* order_before,
                                     const int64_t* grid_after, const int64_t* order_after,
                                     int64_t element_bytes, petacomm_redistribution** plan) {
    return petacomm_redistribution_create(MPI_Comm_f2c(comm), n_axes, shape, grid_before, order_before,
                                          grid_after, order_after, element_bytes, plan);
}

int petacomm_reorder_f(MPI_Fint comm, int64_t n_targets, const int64_t* targets, const double* bytes,
                       MPI_Fint* reordered) {
    MPI_Comm made;
    const int code = petacomm_reorder(MPI_Comm_f2c(comm), n_targets, targets, bytes, &made);
    *reordered = MPI_Comm_c2f(made);
    return code;
}

#ifdef __cplusplus
}
#endif
