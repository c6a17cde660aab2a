#!/bin/sh
# On the box: OUT=FOLDER sh run.sh SECONDS TARGET...   such as  OUT=out sh run.sh 560 profiles/records/painn/full-h100/summary.json
# Call it again to go on. What came of it lies in OUT; at home `phasewise unpack` takes it in.
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-python3}" "$here/start.pyz" "$here" "$@"
