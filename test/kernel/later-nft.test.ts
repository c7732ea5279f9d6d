/**
 * Beside a set that nft 1.1.2 or later has made, as containers with a later Debian than the node's
 * make them: libnftables before 1.1.2 crashes where it reads one, and nodewall goes on.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BundleManifest } from '../../lib/process/bundle.ts';
import type { CheckLine } from '../../lib/process/check-line.ts';
import { addressPlan } from '../netns/topology.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy, tcp } from './manifests.ts';
import { connects, listen } from './talk.ts';

const THEIRS = `table inet theirs {
  chain before { type filter hook prerouting priority raw; meta mark 0x77 notrack; }
  chain nat { type nat hook prerouting priority dstnat; tcp dport 1 redirect to :2; }
}
`;
/**
 * Adds to a table a set of IPv4 addresses with the userdata that nft 1.1.3 writes: the byte order,
 * and the type of the key as an expression (NFTNL_UDATA_SET_KEY_TYPEOF), which earlier ones cannot
 * read.
 */
const MAKE_SET = `
import socket, struct, sys
def attribute(kind, data):
    return struct.pack('=HH', 4 + len(data), kind) + data + bytes(-len(data) % 4)
def message(kind, flags, family, subsystem, body=b''):
    return struct.pack('=IHHIIBBH', 20 + len(body), kind, flags, 1, 0, family, 0, socket.htons(subsystem)) + body
number = lambda value: struct.pack('>I', value)
body = b''.join(attribute(*one) for one in (
    (1, sys.argv[1].encode() + b'\\0'), (2, b'later\\0'), (3, number(0)), (4, number(7)), (5, number(4)), (10, number(1)),
    (13, bytes.fromhex('00040200000003080004040000000100'))))
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.send(message(16, 1, 0, 10) + message(10 << 8 | 9, 0x405, 1, 0, body) + message(17, 1, 0, 10))
error, = struct.unpack('=i', netlink.recv(65536)[16:20])
assert error == 0, error
`;
const TRIAL = new URL('../../agent/apply/netlink/nft-trial.ts', import.meta.url);

kernelSuite('beside sets of a later nft', () => {
  let node: EnforcedNode;
  let survives: boolean;
  before(async () => {
    node = await createEnforcedNode(addressPlan({ clients: 1 }));
    await node.nft(THEIRS);
    const { node: namespace } = node.topology;
    await namespace.run(['python3', '-c', MAKE_SET, 'theirs']);
    const listed = await namespace.run(['nft', 'list', 'table', 'inet', 'theirs'], { anyStatus: true });
    survives = listed.status === 0;
  });
  after(() => node?.close());

  it('the trials of nf_tables succeed, in the own network namespace too', async () => {
    const script = `
      const { TRIAL_WAYS, tryEgress } = await import(${JSON.stringify(TRIAL.href)});
      const trials = [];
      for (const way of [...TRIAL_WAYS, tryEgress]) trials.push(await way());
      process.stdout.write(JSON.stringify(trials));`;
    const argv = [process.execPath, '--input-type=module', '-e', script];
    const works = { works: true };
    const { stdout } = await node.topology.node.run(argv);
    assert.deepEqual(JSON.parse(stdout), [works, works, works, works]);
  });

  it('rules come into force, and go again', async () => {
    const [client = assert.fail()] = node.topology.clients;
    const [{ v4 } = assert.fail()] = node.topology.plan.nodeAddresses;
    await listen(node.topology.node, [9001]);
    const closed = [{ name: 'closed', action: 'Drop', ports: [tcp(9001)] }] as const;
    await node.write('policy.json', [policy('in', { ingress: closed })]);
    const gates = await node.configure({ featureGates: { EgressGateway: true } });
    for (const options of [[], gates]) {
      await node.once('--strict', ...options);
      assert.equal(await connects(client, v4, 9001), false);
    }
    await node.cleanup();
    assert.equal(await connects(client, v4, 9001), true);
  });

  it('bundles say so where our table has one: the nft of the node has loaded it at boot', async () => {
    await node.write('policy.json', [policy('in', { ingress: [{ name: 'rest', action: 'Drop' }] })]);
    await node.once('--strict');
    await node.topology.node.run(['python3', '-c', MAKE_SET, 'nodewall']);
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-later-'));
    try {
      const file = ['--file', join(folder, 'bundle.tgz')];
      const { stdout } = await node.asked('bundle', '--machine', ...file, '-o', 'json');
      const { parts, missing }: Pick<BundleManifest, 'parts' | 'missing'> = JSON.parse(stdout);
      const rules = 'rules/inet-nodewall.nft';
      assert.equal(
        parts.some(({ name }) => name === rules),
        survives,
        stdout,
      );
      const why = missing.find(({ what }) => what === rules)?.why ?? '';
      assert.match(why, survives ? /^$/ : /libnftables of this machine cannot read sets/);
    } finally {
      await rm(folder, { recursive: true });
      await node.cleanup();
    }
  });

  it('checks say what they cannot read', async () => {
    const options = await node.configure({ featureGates: { EgressGateway: true } });
    const { stdout } = await node.asked('check', '--machine', ...options, '-o', 'json');
    const { lines }: { readonly lines: readonly CheckLine[] } = JSON.parse(stdout);
    const line = lines.find(({ check }) => check === 'untracked packets');
    assert.equal(line?.state, 'warning', stdout);
    assert.match(
      line?.message ?? '',
      survives ? /inet theirs \(1\)/ : /inet theirs: libnftables of this machine cannot read sets/,
    );
  });
});
