/* The compressor "terp" for libpressio, in a library of its own:
 * libpressio_terp.so. A program that links or loads the library has the
 * compressor. doc/libpressio.md describes the options. */
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <libpressio_ext/cpp/compressor.h>
#include <libpressio_ext/cpp/data.h>
#include <libpressio_ext/cpp/domain_manager.h>
#include <libpressio_ext/cpp/options.h>
#include <libpressio_ext/cpp/pressio.h>

extern "C" {
#include "adios2/block.h"
#include "codec/api/processor.h"
#include "codec/api/settings_text.h"
#include "codec/api/variables.h"
}

namespace libpressio
{
namespace compressors
{
namespace
{

/* Settings whose values are numbers, with libpressio's own names for some. */
struct number_name {
    const char *setting, *common;
    bool is_bound;
};
const std::array<number_name, 8> number_names = {{
    {"abs", "pressio:abs", true},
    {"rel", "pressio:rel", true},
    {"pwr", "pressio:pw_rel", true},
    {"psnr", nullptr, true},
    {"digits", nullptr, true},
    {"bits", nullptr, true},
    {"floor", nullptr, false},
    {"missing", nullptr, false},
}};
const std::array<const char *, 6> string_names = {
    {"keep_sign", "valid_range", "pipeline", "predictor", "effort", "dims"}};

std::string
key_of(const char *setting)
{
    return std::string("terp:") + setting;
}

/* The type as terp codes it; TERP_BYTES: it is stored unchanged. */
terp_type
type_of(pressio_dtype type)
{
    switch (type) {
    case pressio_double_dtype:
        return TERP_FLOAT64;
    case pressio_float_dtype:
        return TERP_FLOAT32;
    case pressio_uint8_dtype:
    case pressio_bool_dtype:
        return TERP_UINT8;
    case pressio_uint16_dtype:
        return TERP_UINT16;
    case pressio_uint32_dtype:
        return TERP_UINT32;
    case pressio_uint64_dtype:
        return TERP_UINT64;
    case pressio_int8_dtype:
        return TERP_INT8;
    case pressio_int16_dtype:
        return TERP_INT16;
    case pressio_int32_dtype:
        return TERP_INT32;
    case pressio_int64_dtype:
        return TERP_INT64;
    default:
        return TERP_BYTES;
    }
}

/* libpressio's dims begin with the fastest. The slowest are merged where terp
 * takes fewer. */
std::vector<uint64_t>
dims_of(const pressio_data &data)
{
    std::vector<uint64_t> dims(data.dimensions().rbegin(),
                               data.dimensions().rend());

    while (dims.size() > TERP_BLOCK_MAX_NDIMS) {
        dims[1] *= dims[0];
        dims.erase(dims.begin());
    }
    return dims;
}

class terp_compressor : public libpressio_compressor_plugin
{
  public:
    terp_compressor()
    {
        read_words(m_words, &m_cd);
    }

    pressio_options get_options_impl() const override
    {
        pressio_options options;

        for (const number_name &name : number_names) {
            double number = 0;
            const auto found = m_words.find(name.setting);
            const bool is_set =
                found != m_words.end() &&
                terp_text_read_number(found->second.c_str(), &number);
            for (const std::string &key :
                 {key_of(name.setting),
                  std::string(name.common ? name.common : "")}) {
                if (key.empty())
                    continue;
                if (is_set)
                    set(options, key, number);
                else
                    set_type(options, key, pressio_option_double_type);
            }
        }
        for (const char *name : string_names) {
            const auto found = m_words.find(name);
            if (found != m_words.end())
                set(options, key_of(name), found->second);
            else
                set_type(options, key_of(name), pressio_option_charptr_type);
        }
        set(options, "terp:lossless",
            static_cast<int32_t>(m_words.count("lossless")));
        set_type(options, "pressio:lossless", pressio_option_int32_type);
        set(options, "terp:format",
            static_cast<int32_t>(m_words.count("format")));
        set(options, "terp:threads", m_nthreads);
        set(options, "pressio:nthreads", m_nthreads);
        return options;
    }

    pressio_options get_configuration_impl() const override
    {
        pressio_options options;

        set(options, "pressio:thread_safe", pressio_thread_safety_multiple);
        set(options, "pressio:stability", "experimental");
        return options;
    }

    pressio_options get_documentation_impl() const override
    {
        pressio_options options;

        set(options, "pressio:description",
            "terp: error-bounded compression of floating-point data");
        for (const number_name &name : number_names)
            set(options, key_of(name.setting), "a number, see cd_values.md");
        for (const char *name : string_names)
            set(options, key_of(name), "a name or dims, see cd_values.md");
        set(options, "terp:lossless", "1: every bit comes back");
        set(options, "terp:format", "1: only streams that terp 1 reads");
        set(options, "terp:threads", "threads; 0: TERP_NUM_THREADS decides");
        return options;
    }

    int set_options_impl(const pressio_options &options) override
    {
        words changed = m_words;
        uint32_t nthreads = m_nthreads;
        terp_cd cd;

        for (const number_name &name : number_names) {
            double number;
            if (get(options, key_of(name.setting), &number) ==
                    pressio_options_key_set ||
                (name.common &&
                 get(options, name.common, &number) == pressio_options_key_set))
                put_number(name, number, &changed);
        }
        for (const char *name : string_names) {
            std::string word;
            if (get(options, key_of(name), &word) == pressio_options_key_set)
                changed[name] = word;
        }
        int32_t flag;
        if ((get(options, "terp:lossless", &flag) == pressio_options_key_set &&
             flag != 0) ||
            get(options, "pressio:lossless", &flag) ==
                pressio_options_key_set) {
            drop_bounds(&changed);
            changed["lossless"] = "true";
        }
        if (get(options, "terp:format", &flag) == pressio_options_key_set) {
            changed.erase("format");
            if (flag != 0)
                changed["format"] = std::to_string(flag);
        }
        if (get(options, "pressio:nthreads", &nthreads) ==
                pressio_options_key_set ||
            get(options, "terp:threads", &nthreads) ==
                pressio_options_key_set) {
            if (nthreads > TERP_MAX_NTHREADS)
                return set_error(1, "terp: too many threads");
        }
        const std::string error = read_words(changed, &cd);
        if (!error.empty())
            return set_error(1, "terp: " + error);
        m_words = std::move(changed);
        m_cd = cd;
        m_nthreads = nthreads;
        return 0;
    }

    int compress_impl(const pressio_data *given, pressio_data *output) override
    {
        const pressio_data input = on_host(*given);
        const std::vector<uint64_t> dims = dims_of(input);
        const terp_block block = block_of(input, dims);
        const uint64_t cap_nbytes = terp_block_bound(&block);
        uint64_t nbytes = 0;

        if (cap_nbytes == 0)
            return set_error(2, "terp: the array is too large");
        pressio_data encoded =
            pressio_data::owning(pressio_byte_dtype, {cap_nbytes});
        const terp_run_options options = run_options();
        const terp_status st = terp_block_encode(
            &options, &m_cd, &block, input.data(), encoded.data(), &nbytes);
        if (st != TERP_OK)
            return set_error(2, std::string("terp: ") + terp_status_text(st));
        /* A copy frees what the stream does not need. */
        *output =
            pressio_data::copy(pressio_byte_dtype, encoded.data(), {nbytes});
        return 0;
    }

    /* `output` says the type and the dims. */
    int decompress_impl(const pressio_data *given,
                        pressio_data *output) override
    {
        const pressio_data input = on_host(*given);
        pressio_data decoded =
            pressio_data::owning(output->dtype(), output->dimensions());
        const terp_run_options options = run_options();
        uint64_t nbytes = 0;
        const terp_status st =
            terp_block_decode(&options, input.data(), input.size_in_bytes(),
                              decoded.data(), decoded.size_in_bytes(), &nbytes);

        if (st != TERP_OK)
            return set_error(3, std::string("terp: ") + terp_status_text(st));
        if (nbytes != decoded.size_in_bytes())
            return set_error(3, "terp: the stream holds another array");
        *output = std::move(decoded);
        return 0;
    }

    int major_version() const override
    {
        return TERP_VERSION_MAJOR;
    }
    int minor_version() const override
    {
        return TERP_VERSION_MINOR;
    }
    int patch_version() const override
    {
        return TERP_VERSION_PATCH;
    }
    const char *version() const override
    {
        return terp_version();
    }
    const char *prefix() const override
    {
        return "terp";
    }
    void set_name_impl(const std::string &) override
    {
    }

    std::shared_ptr<libpressio_compressor_plugin> clone() override
    {
        return std::make_shared<terp_compressor>(*this);
    }

  private:
    using words = std::map<std::string, std::string>;

    static pressio_data on_host(const pressio_data &data)
    {
        return domain_manager().make_readable(domain_plugins().build("malloc"),
                                              data);
    }

    static terp_block block_of(const pressio_data &data,
                               const std::vector<uint64_t> &dims)
    {
        terp_block block = terp_block();

        block.type = type_of(data.dtype());
        block.value_nbytes =
            static_cast<uint64_t>(pressio_dtype_size(data.dtype()));
        block.ndims = static_cast<int>(dims.size());
        block.dims = dims.data();
        return block;
    }

    terp_run_options run_options() const
    {
        terp_run_options options = terp_run_options();

        options.size = sizeof options;
        terp_variable_nthreads(&options.nthreads);
        if (m_nthreads > 0)
            options.nthreads = static_cast<int>(m_nthreads);
        terp_variable_engine(&options.engine);
        return options;
    }

    static void drop_bounds(words *settings)
    {
        settings->erase("lossless");
        for (const number_name &name : number_names)
            if (name.is_bound)
                settings->erase(name.setting);
    }

    /* A bound replaces the one before. */
    static void put_number(const number_name &name, double number,
                           words *settings)
    {
        char text[TERP_TEXT_NUMBER_NBYTES];

        if (name.is_bound)
            drop_bounds(settings);
        (*settings)[name.setting] = terp_text_number(number, 17, text);
    }

    /* Returns what is wrong; empty: nothing. */
    static std::string read_words(const words &settings, terp_cd *cd_ret)
    {
        terp_worded_settings worded = terp_worded_settings();
        unsigned numbers[TERP_CD_MAX_NUSER_WORDS];
        const char *reason = "";

        for (const auto &setting : settings)
            if (!terp_settings_take_word(&worded, setting.first.c_str(),
                                         setting.second.c_str(), &reason))
                return setting.first + " = \"" + setting.second +
                       "\" is not valid: " + reason;
        const size_t n =
            terp_settings_end_words(&worded, true, numbers, &reason);
        if (n == 0 || terp_cd_parse(n, numbers, cd_ret, &reason) != TERP_OK)
            return reason;
        return "";
    }

    words m_words;
    terp_cd m_cd = terp_cd();
    uint32_t m_nthreads = 0;
};

pressio_register registration(compressor_plugins(), "terp", []() {
    return std::make_shared<terp_compressor>();
});

} // namespace
} // namespace compressors
} // namespace libpressio

/* A program that calls it needs no option of the linker to keep the library. */
extern "C" __attribute__((visibility("default"))) void
libpressio_register_terp(void)
{
}
