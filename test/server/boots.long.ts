/**
 * A server is switched on again and again while somebody whom its policy keeps out opens
 * connections, from before the first process runs: what the units of nodewall load, and when.
 */
import assert from 'node:assert/strict';
import { KERNELS } from '../../build/manifests/compatibility/matrix.ts';
import { type Scratch, scratchFolder } from '../../build/programs/folder.ts';
import { type GuestKernel, guestKernel } from '../guests/kernel.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { ServerMachine } from './machine.ts';
import { buildPackage } from './package.ts';

interface Server {
  readonly title: string;
  /** In a guest with the kernel of that suite of Debian; null: in a container. */
  readonly kernel: string | null;
  /** With each dataplane. */
  readonly boots: number;
}

/** A boot of an emulated guest takes minutes. */
const SERVERS: readonly Server[] = [
  { title: 'boots of a server', kernel: null, boots: 20 },
  { title: 'boots of a virtual machine, Debian 12', kernel: 'bookworm', boots: 3 },
  { title: 'boots of a virtual machine, the newest kernel', kernel: 'sid', boots: 3 },
];
const FOLDER = '/var/lib/nodewall/boot/current';
const POLICY = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: server}
spec:
  priority: 10
  appliedTo: [{nodeSelector: {}}]
  ingress:
    - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{protocol: TCP, port: 22}]}
    - {name: rest, action: Drop}
`;

for (const { title, kernel, boots } of SERVERS)
  kernelSuite(title, function () {
    this.timeout(kernel === null ? 900_000 : 3_600_000);
    /** Milliseconds. */
    const limit = kernel === null ? 60_000 : 600_000;
    let scratch: Scratch;
    let machine: ServerMachine;
    let floods: (() => Promise<number>)[] = [];
    before(async () => {
      scratch = await scratchFolder('nodewall-boots-');
      const file = await buildPackage(scratch.path);
      machine = await ServerMachine.create(await kernelOf(kernel));
      await machine.take(file, 'root/nodewall.deb');
      floods = [await machine.outside.flood('friend'), await machine.outside.flood('stranger')];
      await machine.powerOn();
      await machine.shell('apt-get install -y /root/nodewall.deb 2>&1');
      await write('/etc/nodewall/manifests/server.yaml', POLICY);
      await machine.shell('systemctl enable --now nodewall 2>&1');
      await saved('rules.nft');
    });
    after(async () => {
      for (const stop of floods) assert.ok((await stop()) > 1_000);
      await machine?.close();
      await scratch?.remove();
    });

    const write = async (path: string, text: string) =>
      assert.equal((await machine.run(['tee', path], { stdin: text })).code, 0);
    const saved = (name: string) =>
      until(`${name} is saved`, async () => (await machine.run(['ls', `${FOLDER}/${name}`])).code === 0, {
        limit,
      });
    const state = async (unit: string) => (await machine.run(['systemctl', 'is-active', unit])).stdout.trim();

    /** Boots; returns the answers that each sender has got before the machine was up. */
    async function boot(how: 'powerOff' | 'cutPower') {
      await machine[how]();
      await machine.outside.answers();
      await machine.powerOn();
      return machine.outside.answers();
    }

    /** Both get what the policy says, once the machine is up. */
    async function isEnforced(): Promise<void> {
      await until(
        'the friend is answered',
        async () => {
          const { friend, stranger } = await machine.outside.answers();
          assert.equal(stranger, 0);
          return friend > 0;
        },
        { limit },
      );
    }

    /** Of units, in the order in which systemd started them. */
    async function started(...units: readonly string[]): Promise<string[]> {
      const show = ['systemctl', 'show', '--property=ActiveEnterTimestampMonotonic', '--value'];
      const times = await Promise.all(
        units.map(async (unit) => [unit, Number((await machine.run([...show, unit])).stdout)] as const),
      );
      return times.sort(([, a], [, b]) => a - b).map(([unit]) => unit);
    }

    if (kernel !== null)
      it('have control groups of version 2 alone, and the agent in one of its own', async () => {
        assert.equal(await machine.shell('stat -fc %T /sys/fs/cgroup'), 'cgroup2fs\n');
        const cgroup = await machine.shell('cat /proc/$(systemctl show -P MainPID nodewall)/cgroup');
        assert.equal(cgroup, '0::/system.slice/nodewall.service\n');
      });

    it(`answer nobody whom the policy keeps out, ${boots} times`, async () => {
      const units = ['nodewall-boot.service', 'network-pre.target', 'systemd-networkd.service'];
      for (let i = 0; i < boots; i++) {
        const { stranger } = await boot(i % 2 === 0 ? 'cutPower' : 'powerOff');
        assert.equal(stranger, 0, `boot ${i + 1}`);
        assert.equal(await state('nodewall-boot'), 'active');
        assert.deepEqual(await started(...units), units);
        await isEnforced();
      }
    });

    it('are followed by an agent that leaves the rules as they are', async () => {
      const rules = () => machine.shell(`nft -s -a list table inet nodewall | grep 'comment "server/'`);
      await machine.shell('systemctl stop nodewall; systemctl mask nodewall 2>&1');
      await boot('powerOff');
      const booted = await rules();
      await machine.shell('systemctl unmask nodewall 2>&1; systemctl start nodewall');
      await until(
        'the agent enforces',
        async () =>
          /"enforced"|nothing to change/.test(await machine.shell('journalctl -b -u nodewall -o cat')),
        { limit },
      );
      assert.equal(await rules(), booted, 'with handles: no rule is made again');
      await isEnforced();
    });

    describe('with a damaged or foreign file, and no agent', () => {
      before(async () => {
        await machine.shell('systemctl stop nodewall; systemctl mask nodewall 2>&1');
      });
      after(async () => {
        await machine.shell('systemctl unmask nodewall 2>&1; systemctl start nodewall');
        await until(
          'the stranger is not answered',
          async () => (await machine.outside.answers()).stranger === 0,
          { limit },
        );
        await isEnforced();
      });

      /** The agent writes the files for a configuration; then one of them is spoilt. */
      async function spoil(config: string, script: string): Promise<void> {
        await write('/etc/nodewall/config.yaml', config);
        await machine.shell('rm -rf /var/lib/nodewall/boot; systemctl unmask nodewall 2>&1');
        await machine.shell('systemctl start nodewall');
        await saved('rules.nft');
        await machine.shell(`systemctl stop nodewall; systemctl mask nodewall 2>&1; ${script}; sync`);
      }
      const DAMAGE = `echo >> ${FOLDER}/rules.nft`;
      /** As on a machine with another identity. */
      const FOREIGN = `sha256sum /etc/hostname >> ${FOLDER}/SHA256SUMS; echo other > /etc/hostname`;

      for (const [what, script] of [
        ['damaged', DAMAGE],
        ['foreign', FOREIGN],
      ] as const) {
        it(`${what}: let nobody in`, async () => {
          await spoil('', script);
          assert.deepEqual(await boot('cutPower'), { friend: 0, stranger: 0 });
          assert.equal(await state('nodewall-boot'), 'failed');
          assert.match(await machine.shell('nft list table inet nodewall'), /boot-minimal/);
        });
      }

      it('let SSH in from boot.ssh', async () => {
        await spoil('boot: {ssh: [198.51.100.0/24]}\n', DAMAGE);
        assert.equal((await boot('cutPower')).stranger, 0);
        await isEnforced();
      });

      it('are open with boot.onError: open', async () => {
        await spoil('boot: {onError: open}\n', DAMAGE);
        await boot('cutPower');
        await until('the stranger is answered', async () => (await machine.outside.answers()).stranger > 0, {
          limit,
        });
      });
    });

    it('let everybody in without the units: the sender is there', async () => {
      await machine.shell('systemctl stop nodewall; systemctl disable nodewall 2>&1');
      await boot('powerOff');
      await until('the stranger is answered', async () => (await machine.outside.answers()).stranger > 0, {
        limit,
      });
      await machine.shell('systemctl enable --now nodewall 2>&1');
    });

    it(`answer nobody with iptables either, ${boots} times`, async () => {
      await write('/etc/nodewall/config.yaml', 'dataplane: iptables\n');
      const dropIn = '/etc/systemd/system/nodewall.service.d';
      await machine.shell(`mkdir -p ${dropIn}`);
      await write(`${dropIn}/iptables.conf`, '[Service]\nCapabilityBoundingSet=CAP_NET_RAW\n');
      await machine.shell('systemctl daemon-reload; systemctl restart nodewall');
      await saved('rules.v4');
      for (let i = 0; i < boots; i++) {
        const { stranger } = await boot(i % 2 === 0 ? 'cutPower' : 'powerOff');
        assert.equal(stranger, 0, `boot ${i + 1}`);
        assert.equal(await state('nodewall-boot-iptables'), 'active');
        await isEnforced();
      }
    });
  });

async function kernelOf(name: string | null): Promise<GuestKernel | null> {
  const kernel = KERNELS.find((one) => one.name === name);
  return kernel === undefined ? null : guestKernel(kernel);
}
