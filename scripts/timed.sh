# For scripts to source.

# timed STEP COMMAND...: runs the command and, if it succeeds and STEPS names a file, appends "seconds<tab>step" to that.
timed() {
  local began=${EPOCHREALTIME/[.,]/} tenths
  "${@:2}" || return
  tenths=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
  [ -z "${STEPS:-}" ] || printf '%d.%d\t%s\n' $((tenths / 10)) $((tenths % 10)) "$1" >> "$STEPS"
}
