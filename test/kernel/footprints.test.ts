/**
 * Rules that other programs have on a node (folder footprints), beside nodewall's: those of both
 * hold for packets, neither changes the other's, and `nodewall check` names what they have in
 * common.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckLine } from '../../lib/process/check-line.ts';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { LACKING } from './flowtable.ts';
import { listForeignRules } from './foreign-rules.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { connects, listen } from './talk.ts';
import { withVariations } from './variations.ts';

const FOLDER = join(import.meta.dirname, 'footprints');
/** Which policies close, which some footprints close, and which nobody does. */
const [OURS, THEIRS, OPEN] = [9001, 9002, 9003];
const POD_PORT = 8080;
/** Of the node, translated to the pod's by those who publish it. */
const PUBLISHED = 30_080;

interface Footprint {
  readonly file: string;
  /** Whether its rules close THEIRS, and publish the pod's port. */
  readonly closes?: true;
  readonly publishes?: true;
  /** What `nodewall check` warns of, with the tables and the numbers of their rules. */
  readonly clashes: Readonly<Record<string, string>>;
}

const ALL: readonly Footprint[] = [
  {
    file: 'docker.rules',
    publishes: true,
    clashes: { 'published ports': 'ip nat (1)', 'masqueraded pods': 'ip nat (1)' },
  },
  { file: 'calico.rules', closes: true, clashes: { 'masqueraded pods': 'ip nat (1)' } },
  { file: 'calico.nft', closes: true, clashes: { 'masqueraded pods': 'ip calico (1)' } },
  {
    file: 'cilium.rules',
    clashes: { 'untracked packets': 'ip raw (5)', 'masqueraded pods': 'ip nat (1)' },
  },
  { file: 'tailscale.rules', clashes: { 'masqueraded pods': 'ip nat (1)' } },
  {
    file: 'netbird.nft',
    clashes: { 'masqueraded pods': 'ip netbird (2)', 'marks of connections': 'ip netbird (2)' },
  },
  {
    file: 'early-nat.nft',
    clashes: { 'masqueraded pods': 'inet site-nat (1)', 'source NAT': 'inet site-nat (1)' },
  },
  {
    file: 'firewalld.nft',
    closes: true,
    publishes: true,
    clashes: { 'published ports': 'inet firewalld (1)', 'masqueraded pods': 'inet firewalld (1)' },
  },
  { file: 'ufw.rules', closes: true, clashes: { 'other tables': 'ip filter INPUT' } },
  { file: 'fail2ban.nft', closes: true, clashes: {} },
  { file: 'libvirt.nft', clashes: { 'masqueraded pods': 'ip libvirt_network (2)' } },
  { file: 'kube-router.rules', clashes: { 'masqueraded pods': 'ip nat (1)' } },
  {
    file: 'flowtable.nft',
    publishes: true,
    clashes: { flowtables: 'inet fast-path fast', 'published ports': 'inet fast-path (1)' },
  },
  { file: 'queue.nft', clashes: {} },
];
/** Of each kind of rules, one. */
const FIRST = ['docker.rules', 'calico.nft', 'cilium.rules', 'firewalld.nft', 'flowtable.nft', 'queue.nft'];
const FOOTPRINTS = withVariations(
  ALL.filter(({ file }) => FIRST.includes(file)),
  ALL.filter(({ file }) => !FIRST.includes(file)),
);
/** Checks that are made where egress gateways are on, which iptables has not. */
const OF_GATEWAYS = ['marks of connections', 'source NAT'];
/** Checks of what others have. */
const CHECKS = [
  ...['other tables', 'untracked packets', 'queued packets', 'flowtables', 'published ports'],
  ...['masqueraded pods', ...OF_GATEWAYS],
];

describe('the folder of footprints', () => {
  it('has what is tried, and nothing else', async () => {
    const files = (await readdir(FOLDER)).filter((name) => name !== 'README.md');
    assert.deepEqual(files.sort(), ALL.map(({ file }) => file).sort());
  });
});

forEachDataplane(
  'beside the rules of others',
  (dataplane) => {
    let node: EnforcedNode;
    let outside: Namespace;
    let own: string;
    beforeEach(async () => {
      node = await createEnforcedNode(addressPlan({ clients: 2, groups: [0, 8] }), dataplane);
      const { clients, plan } = node.topology;
      const [client, pod] = clients;
      const [address] = plan.nodeAddresses;
      assert.ok(client !== undefined && pod !== undefined && address !== undefined);
      [outside, own] = [client, address.v4];
      await Promise.all([
        listen(node.topology.node, [OURS, THEIRS, OPEN]),
        listen(outside, [OURS, OPEN]),
        listen(pod, [POD_PORT]),
      ]);
    });
    afterEach(() => node?.close());

    for (const footprint of FOOTPRINTS)
      it(`${footprint.file}: both hold`, async function () {
        const { closes = false, publishes = false, clashes, file } = footprint;
        const lacking = await lay(file);
        if (lacking !== null) {
          process.stderr.write(`skipped: footprint ${file}: ${lacking}\n`);
          this.skip();
        }
        const alone = { ours: true, theirs: !closes, open: true, published: publishes, out: true };
        const listed = await list();
        assert.deepEqual(await reached(), alone, 'before');

        const ports = { action: 'Drop', ports: [tcp(OURS)] } as const;
        const allow = { name: 'theirs', action: 'Allow', from: [cidr('10.100.0.0/16')] } as const;
        const ingress = [
          { ...allow, ports: [tcp(THEIRS)] },
          { name: 'ours', ...ports },
        ];
        const egress = [{ name: 'ours', ...ports }];
        await node.write('policy.json', [policy('in', { ingress }), policy('out', { egress })]);
        await node.again('--strict');
        // An Allow of iptables is final in the tables that both are in (docs/dataplanes.md).
        const isFinal = dataplane.iptables === 'nft' && file.endsWith('.rules');
        const together = { ...alone, ours: false, theirs: isFinal || !closes, out: false };
        assert.deepEqual(await reached(), together, 'beside');
        assert.equal(await list(), listed);
        assert.deepEqual(await clashesFound(), expected(clashes));

        const closed = [{ name: 'published', action: 'Drop', ports: [tcp(PUBLISHED)] }] as const;
        await node.write('nodeport.json', [policy('nodeport', { traffic: 'NodePort', ingress: closed })]);
        await node.again('--strict');
        assert.deepEqual(await reached(), { ...together, published: false }, 'with a policy for NodePorts');

        await node.cleanup();
        assert.deepEqual(await reached(), alone, 'after');
        assert.equal(await list(), listed);
      });

    /** Null: they are in force. Else why they cannot be. */
    async function lay(file: string): Promise<string | null> {
      const stdin = await readFile(join(FOLDER, file), 'utf8');
      const argv = file.endsWith('.nft') ? ['nft', '-f', '-'] : ['iptables-nft-restore', '--noflush'];
      const { status, stderr } = await node.topology.node.run(argv, { stdin, anyStatus: true });
      if (status === 0) return null;
      assert.match(stderr, LACKING);
      return 'this kernel lacks an expression of it';
    }

    const list = () => listForeignRules(node.topology.node, ['nft']);

    async function reached() {
      const [client] = node.topology.plan.clientAddresses;
      const [ours, theirs, open, published, out] = await Promise.all([
        ...[OURS, THEIRS, OPEN, PUBLISHED].map((port) => connects(outside, own, port)),
        connects(node.topology.node, client?.v4 ?? '', OURS),
      ]);
      return { ours, theirs, open, published, out };
    }

    const hasGateways = dataplane.iptables === null;

    function expected(clashes: Footprint['clashes']): Footprint['clashes'] {
      const isAsked = (check: string) => hasGateways || !OF_GATEWAYS.includes(check);
      return Object.fromEntries(Object.entries(clashes).filter(([check]) => isAsked(check)));
    }

    async function clashesFound(): Promise<Record<string, string>> {
      const options = await node.configure(hasGateways ? { featureGates: { EgressGateway: true } } : {});
      const { stdout } = await node.asked('check', '--machine', ...options, '-o', 'json');
      const { lines }: { readonly lines: readonly CheckLine[] } = JSON.parse(stdout);
      const found = lines.filter(({ check, state }) => CHECKS.includes(check) && state === 'warning');
      return Object.fromEntries(
        found.map(({ check, message }) => [check, message.split(': ').slice(1).join(': ')]),
      );
    }
  },
  [NFTABLES],
);
