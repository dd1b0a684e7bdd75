/* Descriptions: how they are read, and what their values mean at each call. */

#include "description.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOLDERS = 96, LINE = 256 };

static struct nvmlDevice_st holders[HOLDERS]; /* the first is the system */
static int holders_count;
static int log_file = -1;
static char current[144]; /* the value that was asked for last */

static const char *const TWO_WORDS[] = {"field", "nvlink", "threshold", "process_name", "missing"};
enum { TWO_WORDS_COUNT = sizeof(TWO_WORDS) / sizeof(*TWO_WORDS) };

static struct entry *find(nvmlDevice_t of, const char *key) {
    for (int i = 0; i < of->count; i++)
        if (strcmp(of->entries[i].key, key) == 0)
            return &of->entries[i];
    return NULL;
}

static void set(nvmlDevice_t of, const char *key, const char *text) {
    struct entry *entry = find(of, key);

    if (entry == NULL) {
        if (of->count == of->room) {
            of->room = of->room ? 2 * of->room : 64;
            of->entries = realloc(of->entries, (size_t)of->room * sizeof(*of->entries));
            if (of->entries == NULL)
                abort();
        }
        entry = &of->entries[of->count++];
        snprintf(entry->key, sizeof(entry->key), "%s", key);
    }
    entry->calls = 0;
    snprintf(entry->text, sizeof(entry->text), "%s", text);
}

static nvmlDevice_t add(nvmlDevice_t parent, unsigned index) {
    nvmlDevice_t made = &holders[holders_count++];

    if (holders_count == HOLDERS)
        abort();
    made->parent = parent;
    made->index = index;
    return made;
}

/* `device`, `device like 0` or `mig`: the holder of the lines that follow. */
static nvmlDevice_t section(const char *line, nvmlDevice_t card) {
    nvmlDevice_t here;
    unsigned like, migs = 0;

    if (strcmp(line, "mig") == 0) {
        while (described_mig(card, migs))
            migs++;
        return add(card, migs);
    }
    here = add(NULL, described_cards());
    if (sscanf(line, "device like %u", &like) == 1) {
        nvmlDevice_t model = described_card(like);

        for (int i = 0; model && i < model->count; i++)
            set(here, model->entries[i].key, model->entries[i].text);
    }
    return here;
}

static void key_and_value(nvmlDevice_t here, const char *line) {
    char key[72], second[56], text[144];
    int after = 0;

    if (sscanf(line, "%55s%n", key, &after) != 1)
        return;
    for (int i = 0; i < TWO_WORDS_COUNT; i++) {
        int more = 0;

        if (strcmp(key, TWO_WORDS[i]) == 0 && sscanf(line + after, "%55s%n", second, &more) == 1) {
            after += more;
            snprintf(key, sizeof(key), "%s %s", TWO_WORDS[i], second);
        }
    }
    *text = '\0';
    sscanf(line + after, " %143[^\n]", text);
    set(here, key, text);
}

void description_load(void) {
    const char *path = getenv("FAKE_NVML"), *log = getenv("FAKE_NVML_LOG");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[LINE];
    nvmlDevice_t here, card;

    for (int i = 0; i < holders_count; i++)
        free(holders[i].entries);
    memset(holders, 0, sizeof(holders));
    holders_count = 0;
    if (log_file < 0 && log)
        log_file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    here = card = add(NULL, 0);
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "mig") == 0)
            here = section(line, card);
        else if (strcmp(line, "device") == 0 || strncmp(line, "device like", 11) == 0)
            here = card = section(line, card);
        else if (*line != '#')
            key_and_value(here, line);
    }
    if (file)
        fclose(file);
}

nvmlDevice_t described_system(void) { return &holders[0]; }

unsigned described_cards(void) {
    unsigned count = 0;

    for (int i = 1; i < holders_count; i++)
        count += holders[i].parent == NULL;
    return holders_count > 1 ? count : 0;
}

nvmlDevice_t described_card(unsigned index) {
    for (int i = 1; i < holders_count; i++)
        if (holders[i].parent == NULL && holders[i].index == index)
            return &holders[i];
    return NULL;
}

nvmlDevice_t described_mig(nvmlDevice_t of, unsigned index) {
    for (int i = 1; i < holders_count; i++)
        if (holders[i].parent == of && holders[i].index == index)
            return &holders[i];
    return NULL;
}

void note(const char *function, nvmlDevice_t of, const char *arguments, ...) {
    char line[LINE];
    int length;
    va_list list;

    if (log_file < 0)
        return;
    length = snprintf(line, sizeof(line), "%s", function);
    if (of && of->parent)
        length += snprintf(line + length, 32, " %u/%u", of->parent->index, of->index);
    else if (of)
        length += snprintf(line + length, 16, " %u", of->index);
    va_start(list, arguments);
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, arguments, list);
    va_end(list);
    if (length > LINE - 2)
        length = LINE - 2;
    line[length++] = '\n';
    if (write(log_file, line, (size_t)length) != length)
        abort();
}

static void wait_for_ever(void) {
    for (;;)
        pause();
}

/* A fault: its name, a number of its own (/3, seconds, an error), and the call it begins with. */
static nvmlReturn_t strike(const char *fault, unsigned call, bool of_a_card) {
    static const struct {
        const char *name;
        nvmlReturn_t error;
    } ERRORS[] = {{"lost", NVML_ERROR_GPU_IS_LOST},
                  {"uninitialized", NVML_ERROR_UNINITIALIZED},
                  {"unknown", NVML_ERROR_UNKNOWN},
                  {"version_mismatch", NVML_ERROR_LIB_RM_VERSION_MISMATCH}};
    unsigned from = 1, every;
    double seconds;
    int error;

    if (sscanf(fault, "hang/%u", &every) == 1 && every > 0) {
        if (call % every == 0)
            wait_for_ever();
    } else if (sscanf(fault, "hang %u", &from) == 1 || strcmp(fault, "hang") == 0) {
        if (call >= from)
            wait_for_ever();
    } else if (sscanf(fault, "slow %lf %u", &seconds, &from) >= 1) {
        if (call >= from)
            usleep((useconds_t)(seconds * 1e6));
    } else if (sscanf(fault, "!%d %u", &error, &from) >= 1) {
        return call >= from ? (nvmlReturn_t)error : NVML_SUCCESS;
    } else {
        for (size_t i = 0; i < sizeof(ERRORS) / sizeof(*ERRORS); i++) {
            size_t length = strlen(ERRORS[i].name);

            if (strncmp(fault, ERRORS[i].name, length) == 0 &&
                (sscanf(fault + length, "%u", &from) == 1 || fault[length] == '\0') &&
                (of_a_card || ERRORS[i].error != NVML_ERROR_GPU_IS_LOST))
                return call >= from ? ERRORS[i].error : NVML_SUCCESS;
        }
    }
    return NVML_SUCCESS;
}

nvmlReturn_t begin(const char *function, nvmlDevice_t of) {
    nvmlDevice_t system = described_system();
    struct entry *fault = find(system, "fault");
    char missing[72];
    nvmlReturn_t error = NVML_SUCCESS;

    system->calls++;
    if (of)
        of->calls++;
    if (fault)
        error = strike(fault->text, system->calls, of != NULL);
    fault = of ? find(of, "fault") : NULL;
    if (error == NVML_SUCCESS && fault)
        error = strike(fault->text, of->calls, true);
    snprintf(missing, sizeof(missing), "missing %s", function);
    if (error == NVML_SUCCESS && find(system, missing))
        error = NVML_ERROR_FUNCTION_NOT_FOUND;
    return error;
}

bool holds(nvmlDevice_t of, const char *key) { return find(of, key) != NULL; }

/* The part of a value that the call of this number gets, and how often it got it before. */
static void part_of(const char *text, unsigned call, unsigned *times) {
    const char *part = text;

    while (call > 0 && strchr(part, ',')) {
        part = strchr(part, ',') + 1;
        call--;
    }
    snprintf(current, sizeof(current), "%.*s", (int)strcspn(part, ","), part);
    *times = call;
}

static nvmlReturn_t answer(struct entry *entry, const char **text, unsigned *times) {
    if (entry == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    part_of(entry->text, entry->calls, times);
    *text = current;
    if (strcmp(current, "hang") == 0)
        wait_for_ever();
    if (strcmp(current, "crash") == 0)
        abort();
    if (*current == '!')
        return (nvmlReturn_t)strtol(current + 1, NULL, 10);
    return NVML_SUCCESS;
}

nvmlReturn_t text_of(nvmlDevice_t of, const char *key, const char **text, unsigned *times) {
    struct entry *entry = find(of, key);
    nvmlReturn_t error = answer(entry, text, times);

    if (entry)
        entry->calls++;
    return error;
}

nvmlReturn_t still_text_of(nvmlDevice_t of, const char *key, const char **text) {
    unsigned times;

    return answer(find(of, key), text, &times);
}

nvmlReturn_t string_of(nvmlDevice_t of, const char *key, char *buffer, unsigned length) {
    const char *text;
    unsigned times;
    nvmlReturn_t error = text_of(of, key, &text, &times);

    if (error != NVML_SUCCESS)
        return error;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t number_of(nvmlDevice_t of, const char *key, unsigned long long *value) {
    const char *text;
    char *end;
    unsigned times;
    nvmlReturn_t error = text_of(of, key, &text, &times);

    if (error != NVML_SUCCESS)
        return error;
    text += strchr(text, ':') ? strcspn(text, ":") + 1 : 0; /* a field's type */
    *value = *text == '-' ? (unsigned long long)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (*end == '+')
        *value += times * strtoull(end + 1, NULL, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t small_of(nvmlDevice_t of, const char *key, unsigned *value) {
    unsigned long long wide;
    nvmlReturn_t error = number_of(of, key, &wide);

    if (error == NVML_SUCCESS)
        *value = (unsigned)wide;
    return error;
}

/* The type that a field's value says it has, `u32:7`; a point makes a double. */
static nvmlValueType_t type_told(const char *text, nvmlValueType_t otherwise) {
    static const struct {
        const char *name;
        nvmlValueType_t type;
    } TYPES[] = {
        {"f64:", NVML_VALUE_TYPE_DOUBLE},       {"u16:", NVML_VALUE_TYPE_UNSIGNED_SHORT},
        {"u32:", NVML_VALUE_TYPE_UNSIGNED_INT}, {"u64:", NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
        {"i32:", NVML_VALUE_TYPE_SIGNED_INT},   {"i64:", NVML_VALUE_TYPE_SIGNED_LONG_LONG}};

    for (size_t i = 0; i < sizeof(TYPES) / sizeof(*TYPES); i++)
        if (strncmp(text, TYPES[i].name, 4) == 0)
            return TYPES[i].type;
    return strchr(text, '.') ? NVML_VALUE_TYPE_DOUBLE : otherwise;
}

nvmlReturn_t value_of(nvmlDevice_t of, const char *key, nvmlValueType_t kind,
                      nvmlFieldValue_t *value) {
    const char *text;
    unsigned long long whole;
    nvmlReturn_t error = still_text_of(of, key, &text);

    if (error == NVML_SUCCESS)
        kind = type_told(text, kind);
    if (error == NVML_SUCCESS && kind == NVML_VALUE_TYPE_DOUBLE) {
        value->valueType = kind;
        value->value.dVal = strtod(strchr(text, ':') ? strchr(text, ':') + 1 : text, NULL);
        find(of, key)->calls++;
        return NVML_SUCCESS;
    }
    error = number_of(of, key, &whole);
    if (error != NVML_SUCCESS)
        return error;
    value->valueType = kind;
    memset(&value->value, 0xa5, sizeof(value->value)); /* what a reader of another type would see */
    if (kind == NVML_VALUE_TYPE_UNSIGNED_INT)
        value->value.uiVal = (unsigned)whole;
    else if (kind == NVML_VALUE_TYPE_SIGNED_INT)
        value->value.siVal = (int)whole;
    else if (kind == NVML_VALUE_TYPE_UNSIGNED_SHORT)
        value->value.usVal = (unsigned short)whole;
    else
        value->value.ullVal = whole;
    return NVML_SUCCESS;
}
