#!/usr/bin/env bash
# The long forms of the attack tests: 300 random edits through Cargo, 2,000 through build scripts,
# and kills. Takes an hour on 2 cores. The seed is printed; CUDA_BUILD_ATTACK_SEED repeats a run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CUDA_BUILD_ATTACK_SEED=${CUDA_BUILD_ATTACK_SEED:-$RANDOM}
echo "seed $CUDA_BUILD_ATTACK_SEED"
failed=0

# attack EDITS TEST: the edits of one test.
attack() {
    CUDA_BUILD_ATTACK_EDITS=$1 CUDA_BUILD_ATTACK_KILLS=40 \
        cargo test -p cargo-cuda --test attack -- --nocapture "$2" || failed=1
}

attack 100 nvrtc_12_edits_through_cargo
attack 100 nvrtc_13_edits_through_cargo
attack 100 nvcc_edits_through_cargo
attack 800 nvrtc_12_edits_through_the_script
attack 800 nvrtc_13_edits_through_the_script
attack 400 nvcc_edits_through_the_script
attack 0 kill
exit $failed
