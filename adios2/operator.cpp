/* The operator of terp for ADIOS2, a plugin: libterp_adios2.so. doc/adios2.md
 * describes its parameters.
 *
 * A plugin belongs to the versions of ADIOS2 whose interface it was compiled
 * for: one for 2.10, one for 2.11, and one for 2.12 and later, whose interface
 * needs no library of ADIOS2. In an ADIOS2 of another version the virtual
 * functions of the interface have other places.
 *
 * A wrong parameter throws when the operator is created. Variable::AddOperation
 * then ends the program with the message, as for ADIOS2's own operators;
 * ADIOS::DefineOperator throws. */
#include <dlfcn.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#if __has_include(<adios2/plugin/PluginOperatorInterface.h>)
#include <adios2/plugin/PluginOperatorInterface.h>
#else
#include <adios2/operator/plugin/PluginOperatorInterface.h>
#endif

extern "C" {
#include "adios2/block.h"
#include "codec/api/processor.h"
#include "codec/api/settings_text.h"
#include "codec/api/variables.h"
}

namespace
{

using adios2::DataType;
using adios2::Dims;
using adios2::Params;

[[noreturn]] void
fail(const std::string &text)
{
    throw std::runtime_error("terp: " + text);
}

/* Prints the reason besides: some versions of ADIOS2 crash when a step ends in
 * which an operator has failed. */
[[noreturn]] void
fail_in_step(const std::string &text)
{
    std::fprintf(stderr, "terp: %s\n", text.c_str());
    fail(text);
}

std::string
lower_case(std::string text)
{
    for (char &c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

/* Parameters of ADIOS2's own. */
bool
is_of_adios2(const std::string &name)
{
    return name == "pluginname" || name == "pluginlibrary" ||
           name == "verbose" || name.empty();
}

/* What the parameters say. */
struct settings {
    terp_cd cd;
    int nthreads; /* 0: TERP_NUM_THREADS decides */
};

bool
read_nthreads(const std::string &text, int *nthreads_ret)
{
    double number;

    if (!terp_text_read_number(text.c_str(), &number) || number < 0 ||
        number > TERP_MAX_NTHREADS || number != static_cast<int>(number))
        return false;
    *nthreads_ret =
        number == 0 ? terp_processor_count() : static_cast<int>(number);
    return true;
}

settings
read_settings(const Params &params)
{
    settings found = settings();
    terp_worded_settings worded = terp_worded_settings();
    unsigned words[TERP_CD_MAX_NUSER_WORDS];
    const char *reason = "";

    for (const auto &param : params) {
        const std::string name = lower_case(param.first);
        bool is_known = true;
        if (name == "threads") {
            is_known = read_nthreads(param.second, &found.nthreads);
            reason = "it must be a number of threads, or 0 for all";
        } else if (!is_of_adios2(name)) {
            is_known = terp_settings_take_word(&worded, name.c_str(),
                                               param.second.c_str(), &reason);
        }
        if (!is_known)
            fail("the parameter " + param.first + " = \"" + param.second +
                 "\" is not valid: " + reason);
    }
    const size_t nwords =
        terp_settings_end_words(&worded, true, words, &reason);
    if (nwords == 0 ||
        terp_cd_parse(nwords, words, &found.cd, &reason) != TERP_OK)
        fail(std::string("the parameters are not valid: ") + reason);
    return found;
}

/* The type as terp codes it; TERP_BYTES: it is stored unchanged. */
terp_type
type_of(DataType type)
{
    switch (type) {
    case DataType::Int8:
    case DataType::Char:
        return TERP_INT8;
    case DataType::Int16:
        return TERP_INT16;
    case DataType::Int32:
        return TERP_INT32;
    case DataType::Int64:
        return TERP_INT64;
    case DataType::UInt8:
        return TERP_UINT8;
    case DataType::UInt16:
        return TERP_UINT16;
    case DataType::UInt32:
        return TERP_UINT32;
    case DataType::UInt64:
        return TERP_UINT64;
    case DataType::Float:
        return TERP_FLOAT32;
    case DataType::Double:
        return TERP_FLOAT64;
    case DataType::FloatComplex:
        return TERP_COMPLEX64;
    case DataType::DoubleComplex:
        return TERP_COMPLEX128;
    default:
        return TERP_BYTES;
    }
}

/* The bytes of a value; 0 if terp cannot store the type. */
uint64_t
nbytes_of(DataType type)
{
    switch (type) {
    case DataType::Int8:
    case DataType::UInt8:
    case DataType::Char:
        return 1;
    case DataType::Int16:
    case DataType::UInt16:
        return 2;
    case DataType::Int32:
    case DataType::UInt32:
    case DataType::Float:
        return 4;
    case DataType::Int64:
    case DataType::UInt64:
    case DataType::Double:
    case DataType::FloatComplex:
        return 8;
    case DataType::DoubleComplex:
        return 16;
    case DataType::LongDouble:
        return sizeof(long double);
    default:
        return 0;
    }
}

terp_run_options
options_of(const settings &settings)
{
    terp_run_options options = terp_run_options();

    options.size = sizeof options;
    terp_variable_nthreads(&options.nthreads);
    if (settings.nthreads > 0)
        options.nthreads = settings.nthreads;
    terp_variable_engine(&options.engine);
    return options;
}

/* Refuses the ADIOS2 that `caller` belongs to if its interface is older than
 * that of a plugin for 2.12. An ADIOS2 that exports no names passes. */
void
check_caller(const void *caller)
{
#ifdef ADIOS2_PLUGIN_OPERATOR_INTERFACE
    Dl_info info;

    if (dladdr(caller, &info) == 0)
        return;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr)
        return;
    const bool is_older =
        dlsym(library, "_ZTIN6adios26plugin23PluginOperatorInterfaceE") !=
        nullptr;
    dlclose(library);
    if (is_older)
        fail(std::string("this plugin is for ADIOS2 2.12 and later, and ") +
             info.dli_fname + " is older; build terp with that ADIOS2");
#else
    static_cast<void>(caller);
#endif
}

class terp_operator : public adios2::plugin::PluginOperatorInterface
{
  public:
    explicit terp_operator(const Params &parameters)
        : PluginOperatorInterface(parameters),
          m_settings(read_settings(parameters))
    {
    }

    size_t Operate(const char *values, const Dims &, const Dims &count,
                   const DataType type, char *encoded) override
    {
        const Dims dims = few_dims(count.data(), count.size());
        terp_block block = terp_block();
        uint64_t nbytes = 0;

        block.type = type_of(type);
        block.value_nbytes = nbytes_of(type);
        if (block.value_nbytes == 0)
            fail_in_step("strings and structs cannot be encoded; remove the "
                         "operator from the variable");
        block.ndims = static_cast<int>(dims.size());
        static_assert(sizeof(size_t) == sizeof(uint64_t), "dims have 64 bits");
        block.dims = reinterpret_cast<const uint64_t *>(dims.data());
        const terp_run_options options = options_of(m_settings);
        const terp_status st = terp_block_encode(
            &options, &m_settings.cd, &block, values, encoded, &nbytes);
        if (st != TERP_OK)
            fail_in_step(std::string("a block was not encoded: ") +
                         terp_status_text(st));
        return nbytes;
    }

    /* ADIOS2 does not say how many bytes `values` holds: as many as its
     * metadata says. */
    size_t InverseOperate(const char *encoded, const size_t nbytes,
                          char *values) override
    {
        uint64_t decoded_nbytes = 0;
        const terp_run_options options = options_of(m_settings);
        const terp_status st = terp_block_decode(
            &options, encoded, nbytes, values, SIZE_MAX, &decoded_nbytes);

        if (st != TERP_OK)
            fail(std::string("a block was not decoded: ") +
                 terp_status_text(st));
        /* From 0, ADIOS2 concludes that the block was not encoded, and would
         * copy it as it is. */
        return decoded_nbytes == 0 ? nbytes : decoded_nbytes;
    }

    bool IsDataTypeValid(const DataType type) const override
    {
        return type_of(type) != TERP_BYTES;
    }

    size_t GetEstimatedSize(const size_t nvalues, const size_t value_nbytes,
                            const size_t ndims,
                            const size_t *counts) const override
    {
        const Dims dims = few_dims(counts, ndims);
        terp_block block = terp_block();

        block.type = TERP_BYTES;
        block.value_nbytes = value_nbytes;
        block.ndims = static_cast<int>(dims.size());
        block.dims = reinterpret_cast<const uint64_t *>(dims.data());
        const uint64_t nbytes = terp_block_bound(&block);
        return nbytes == 0 ? nvalues * value_nbytes : nbytes;
    }

  private:
    /* Merges the slowest dims of an array that has more dims than terp
     * takes. */
    static Dims few_dims(const size_t *dims, size_t ndims)
    {
        Dims few(dims, dims + ndims);

        while (few.size() > TERP_BLOCK_MAX_NDIMS) {
            few[1] *= few[0];
            few.erase(few.begin());
        }
        return few;
    }

    const settings m_settings;
};

} // namespace

extern "C" {
#pragma GCC visibility push(default)

adios2::plugin::PluginOperatorInterface *
OperatorCreate(const Params &parameters)
{
    check_caller(__builtin_return_address(0));
    return new terp_operator(parameters);
}

void
OperatorDestroy(adios2::plugin::PluginOperatorInterface *plugin)
{
    delete plugin;
}

#pragma GCC visibility pop
}
