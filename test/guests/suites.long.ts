/**
 * Suites of the project in guests: the demo, the encrypted tunnel and the kernel's verdicts, by the
 * oldest kernel that is tried and by the newest. `NODEWALL_GUESTS=bookworm,trixie` takes those of
 * these suites of Debian.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { runInGuest } from './guest.ts';
import { guestKernel, SUITES } from './kernel.ts';

const CHECKOUT = join(import.meta.dirname, '../..');
/** Without KVM a guest takes fifty times as long. */
const LIMIT_MS = 3_000_000;
const RUNS = [
  { title: 'passes the demo', command: 'node build/demo/main.ts' },
  { title: 'encrypts the tunnel of egress gateways', command: 'mocha test/kernel/egress-wireguard.test.ts' },
  { title: 'gives each verdict as it is meant', command: 'mocha test/kernel/verdicts.test.ts' },
];
const named = process.env.NODEWALL_GUESTS?.split(',') ?? ['bullseye', 'sid'];
/** Errors of ICMP have a limit for the whole machine before Linux 6.12. */
const PREPARED = `set -e
cd '${CHECKOUT}'
export PATH="$PWD/node_modules/node/bin:$PWD/node_modules/.bin:$PATH"
export NODE_COMPILE_CACHE="$PWD/node_modules/.cache/nodewall"
sysctl -qw net.ipv4.icmp_msgs_per_sec=1000000 net.ipv4.icmp_msgs_burst=1000000
`;

for (const suite of SUITES.filter((name) => named.includes(name)))
  describe(`the kernel of Debian ${suite}`, function () {
    this.timeout(2 * LIMIT_MS);

    it('loads modules, and gives output and status of a command', async () => {
      const script = 'uname -r; for m in wireguard vxlan veth nf_tables ip_set; do modprobe $m; done; exit 7';
      const { code, stdout, stderr } = await runInGuest(await guestKernel(suite), {
        script,
        limitMs: LIMIT_MS,
      });
      assert.deepEqual({ code, stderr }, { code: 7, stderr: '' });
      process.stdout.write(`      Linux ${stdout}`);
    });

    for (const { title, command } of RUNS)
      it(title, async () => {
        const script = PREPARED + command;
        const { code, stdout, stderr } = await runInGuest(await guestKernel(suite), {
          script,
          limitMs: LIMIT_MS,
        });
        assert.equal(code, 0, stdout + stderr);
      });
  });
