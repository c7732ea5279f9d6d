/**
 * Every suite of the matrix in a fresh guest with each kernel; each result is recorded for
 * docs/compatibility.md. `NODEWALL_GUESTS=bookworm,trixie-arm64` takes these kernels,
 * `NODEWALL_GUEST_SUITES=demo,verdicts` these rows; mocha's `--grep` takes cells too.
 */
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { KERNELS, MATRIX_SUITES, type MatrixSuite } from '../../build/manifests/compatibility/matrix.ts';
import { KERNEL_RESULTS, type Outcome } from '../../build/manifests/compatibility/results.ts';
import { debianNft, NFT_VERSIONS } from '../kernel/nft-versions.ts';
import { ofMocha, ofProgram, ofUnfinished, revision } from '../outcome.ts';
import { howGuestRuns, prepareGuest, runInGuest } from './guest.ts';

const CHECKOUT = join(import.meta.dirname, '../..');
const MINUTE = 60_000;
/** For a guest that runs no suite: emulated it boots in 20 s, on a busy machine in minutes. */
const BOOT_LIMIT = 10 * MINUTE;
/** A kernel is fetched or made first, once. */
const FETCH_LIMIT = 60 * MINUTE;

const isNamed = (list: string | undefined, name: string): boolean =>
  list === undefined || list.split(',').includes(name);
const { NODEWALL_GUESTS: kernelNames, NODEWALL_GUEST_SUITES: suiteNames } = process.env;
const { NODEWALL_BUNDLE: program } = process.env;
/** The folder with the program as it is installed (test/with-bundle.ts). */
const BUNDLES = program === undefined ? [] : [dirname(dirname(program))];

for (const kernel of KERNELS.filter(({ name }) => isNamed(kernelNames, name)))
  describe(kernel.title, function () {
    this.timeout(BOOT_LIMIT + FETCH_LIMIT);
    let release = '';

    before(async () => {
      // Guests have no network, and this machine's cache.
      if (isNamed(suiteNames, 'nft')) for (const { suite } of NFT_VERSIONS) await debianNft(suite);
      const script = 'uname -r; for m in wireguard vxlan veth nf_tables ip_set; do modprobe $m; done; exit 7';
      await prepareGuest(kernel);
      const guest = await runInGuest(kernel, { script, limitMs: BOOT_LIMIT });
      assert.deepEqual([guest.code, guest.stderr], [7, '']);
      release = guest.stdout.trim();
      process.stdout.write(`      Linux ${release}\n`);
    });

    for (const suite of MATRIX_SUITES.filter(({ name }) => isNamed(suiteNames, name)))
      it(suite.name, async function () {
        const limitMs = suite.minutes * MINUTE;
        this.timeout(limitMs + MINUTE);
        const date = new Date().toISOString().slice(0, 10);
        const how = await howGuestRuns(kernel);
        const cell = { kernel: kernel.name, suite: suite.name, release, guest: how, date };
        const at = await revision();
        const { text, ...outcome } = await run(suite);
        KERNEL_RESULTS.record({ ...cell, revision: at, ...outcome });
        assert.equal(outcome.result, 'passed', text);
      });

    async function run(suite: MatrixSuite): Promise<Outcome & { text: string }> {
      try {
        const limitMs = suite.minutes * MINUTE;
        const options = { script: scriptOf(suite), limitMs, folders: BUNDLES };
        const guest = await runInGuest(kernel, options);
        const text = guest.stdout + guest.stderr;
        const outcome = guest.counts === '' ? ofProgram(guest.code, text) : ofMocha(guest.counts, text);
        return { ...outcome, text };
      } catch (error) {
        const text = String(error);
        return { ...ofUnfinished(text), text };
      }
    }
  });

/** Errors of ICMP have a limit for the whole machine before Linux 6.12. */
function scriptOf({ run, hasVariations }: MatrixSuite): string {
  const command =
    'program' in run
      ? `node ${run.program.join(' ')}`
      : `mocha --require ./test/guests/patience.ts --reporter-option counts=/run/job/counts ${quoted(run.files)}`;
  return `set -e
cd '${CHECKOUT}'
export PATH="$PWD/node_modules/node/bin:$PWD/node_modules/.bin:$PATH"
export NODE_COMPILE_CACHE="$PWD/node_modules/.cache/nodewall"
${program === undefined ? '' : `export NODEWALL_BUNDLE='${program}'`}
${hasVariations === true ? 'export NODEWALL_VARIATIONS=1' : ''}
export NODEWALL_PATIENCE=6
sysctl -qw net.ipv4.icmp_msgs_per_sec=1000000 net.ipv4.icmp_msgs_burst=1000000
${command}
`;
}

/** mocha expands patterns itself. */
function quoted(files: readonly string[]): string {
  return files.map((file) => `'${file}'`).join(' ');
}
