# SPDX-License-Identifier: Apache-2.0
# Completion of the mecantensor command for bash.

_mecantensor_words() {
  COMPREPLY=()
  local word
  while IFS= read -r word; do
    COMPREPLY+=("$word")
  done < <(compgen -W "$1" -- "$2")
}

_mecantensor_files() {
  COMPREPLY=()
  local word
  while IFS= read -r word; do
    COMPREPLY+=("$word")
  done < <(compgen -f -- "$1")
  compopt -o filenames 2>/dev/null
}

# Values of the option before the cursor; fails when it takes none.
_mecantensor_value() {
  case $1 in
    -b | --backend) _mecantensor_words "auto reference cpu-avx2 cpu-avx512" "$2" ;;
    --activation) _mecantensor_words "none relu gelu gelu-tanh silu" "$2" ;;
    --dtype) _mecantensor_words "f32 f64 f16 bf16 i8 u8 i16 i32 i64 bool" "$2" ;;
    --format) _mecantensor_words "q8_0" "$2" ;;
    --against) _mecantensor_words "openblas blis onednn" "$2" ;;
    --isa) _mecantensor_words "avx2 avx512 any" "$2" ;;
    -o | --output | --bias) _mecantensor_files "$2" ;;
    --alpha | --select | --shape | -t | --threads | --seconds | --rounds) COMPREPLY=() ;;
    *) return 1 ;;
  esac
}

_mecantensor() {
  local commands="devices matmul info convert bench conformance env demo"
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} options="--help --usage"
  if [ "$COMP_CWORD" -eq 1 ]; then
    _mecantensor_words "$commands help --help --version" "$current"
    return
  fi
  # "--option=value" arrives as three words.
  if [ "$current" = "=" ]; then
    current=""
  elif [ "$previous" = "=" ]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if _mecantensor_value "$previous" "$current"; then
    return
  fi
  case $command in
    help) options=$commands ;;
    devices) options+=" --verbose --backend --json" ;;
    matmul)
      options+=" --output --trans-a --trans-b --alpha --bias --activation --check --backend --json"
      ;;
    info) options+=" --verify --json" ;;
    convert) options+=" --dtype --format --select --json" ;;
    bench)
      options+=" --shape --threads --against --isa --seconds --rounds --csv --backend --json"
      ;;
    conformance)
      options+=" --plugin --op --seed --seeds --seconds --backend --json"
      ;;
    env) options+=" --json" ;;
    demo) options+=" --output --backend" ;;
    *) return ;;
  esac
  case $command:$current in
    help:* | *:-*) _mecantensor_words "$options" "$current" ;;
    bench:*) _mecantensor_words "matmul quant ops memory dispatch conv attention" "$current" ;;
    matmul:* | info:* | convert:*) _mecantensor_files "$current" ;;
    *) _mecantensor_words "$options" "$current" ;;
  esac
}

complete -F _mecantensor mecantensor
