/**
 * Guarded apply, stand-alone: a change that cuts a probe off is taken back and held. guard.long.ts
 * has many of them, on each dataplane, and interruptions at any moment.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import { dataplaneSuite, IPTABLES_NFT, NFTABLES } from './dataplane.ts';
import { peerProbes } from './guard-lanes.ts';
import { GuardedNode } from './guarded-node.ts';
import { NODE_NAME, node as nodeManifest, policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const CONTROLLER = 9443;
const API_SERVER = 7443;

const TRIED = 'the new rules are in force and tried';

dataplaneSuite('guarded apply', NFTABLES, () => {
  let guarded: GuardedNode;
  before(async () => {
    guarded = await GuardedNode.create(NFTABLES);
  });
  after(() => guarded?.close());
  afterEach(() => guarded.end());

  it('takes back a change that cuts a probe off, holds it, and applies it again by hand', async () => {
    const { node } = guarded;
    await guarded.open(20_001);
    await guarded.start();
    await node.untilEnforced('20001', guarded.agent);
    await guarded.cut(20_002);
    await guarded.says('rolled back to the last confirmed rules');
    const isBack = async () => (await guarded.has('20001')) && !(await guarded.has('20002'));
    await until('the confirmed rules are back', isBack, { detail: guarded.agent.log });
    await guarded.says('the probe passes again after the rollback');
    await guarded.open(20_003);
    await node.untilEnforced('20003', guarded.agent);
    assert.equal(await guarded.has('20002'), false, 'another change goes on without it');
    await until('the record', async () => (await guarded.file('records.jsonl')) !== '');
    const { event, probe, policy: of, rule } = JSON.parse(await guarded.file('records.jsonl'));
    assert.deepEqual([event, ['v4', 'v6'].includes(probe), of, rule], ['rolledBack', true, 'cut', 'out']);
    const back = await node.ask('undo', '--machine', '-o', 'json');
    const { manifests, tried, held } = JSON.parse(back.stdout);
    assert.deepEqual([manifests.length, tried, held.length], [1, [], 1], back.stdout);
    assert.equal(held[0].policy, 'nodewall.io/cut');
    assert.match(
      (await node.ask('undo', '--machine')).stdout,
      /^nodewall\.io\/cut: was taken back at \S+ \(rolled back: probe /m,
    );
    // It is taken back after a second: a slow machine may need more than one try.
    await until('a retried change is confirmed in time', async () => {
      const before = guarded.times(TRIED).length;
      const { stdout } = await node.ask('retry', 'cut', '-o', 'json');
      assert.deepEqual(JSON.parse(stdout), { retried: ['nodewall.io/cut'] });
      await guarded.says(TRIED, before + 1);
      return /Confirmed: nodewall.io\/cut/.test((await node.asked('confirm')).stdout);
    });
    await until('it is what survives', async () =>
      (await guarded.file('node-state.jsonl')).includes('20002'),
    );
  });

  it('in a cluster takes back what cuts the controller off, and reports it', async () => {
    const { node } = guarded;
    await node.clear();
    const plane = await clientControlPlane(node, CONTROLLER);
    const stateOf = (action: 'Allow' | 'Drop', ...ports: readonly number[]) => {
      const rule = { name: 'out', action, ports: ports.map((port) => tcp(port)) } as const;
      return toState([nodeManifest(node.topology.plan), policy('cut', { egress: [rule] })], NODE_NAME);
    };
    const last = () => plane.reports.at(-1);
    plane.publish(stateOf('Allow', 20_011));
    await guarded.follow(plane.url, ['--token-file', plane.tokenFile, '--ca-file', plane.caFile]);
    await node.untilEnforced('20011', guarded.agent);
    plane.publish(stateOf('Drop', 20_012, CONTROLLER));
    // The trial itself is reported only where a connection to the controller is open already.
    await plane.until(() => {
      const { policy: of, rule, rolledBack } = last()?.failing[0] ?? {};
      return of === 'cut' && rule === 'out' && rolledBack === true;
    });
    assert.match(last()?.failing[0]?.reason ?? '', /probe controller failed.*rule cut\/out denies it/);
    const isBack = async () => (await guarded.has('20011')) && !(await guarded.has('20012'));
    await until('the confirmed rules are back', isBack, { detail: guarded.agent.log });
    await guarded.end();
    await plane.close();
  });

  it('in a cluster takes back what closes its API server to other nodes, and says so meanwhile', async () => {
    const { node } = guarded;
    await node.clear();
    const plane = await clientControlPlane(node, CONTROLLER + 1);
    await peerProbes(guarded, plane, API_SERVER);
    const stateOf = (...ports: readonly number[]) => {
      const rule = { name: 'in', action: 'Drop', ports: ports.map((port) => tcp(port)) } as const;
      return toState([nodeManifest(node.topology.plan), policy('cut', { ingress: [rule] })], NODE_NAME);
    };
    plane.publish(stateOf(20_021));
    const [here] = node.topology.plan.nodeAddresses;
    const options = ['--token-file', plane.tokenFile, '--ca-file', plane.caFile];
    await guarded.follow(plane.url, options, { window: 1, failAfter: 3 });
    await node.untilEnforced('20021', guarded.agent);
    plane.endpoints([{ port: API_SERVER, addresses: [here?.v4 ?? assert.fail()] }]);
    plane.publish(stateOf(20_021, 20_022));
    await guarded.says('these probes to the node pass');
    plane.publish(stateOf(20_021, 20_022, API_SERVER));
    const why = /probe to-api-server failed.*rule cut\/in denies it/;
    const isTold = () => plane.reports.some(({ tried = [] }) => why.test(tried[0]?.reason ?? ''));
    await plane.until(isTold);
    await plane.until(() => {
      const { rolledBack, reason = '' } = plane.reports.at(-1)?.failing[0] ?? {};
      return rolledBack === true && why.test(reason);
    });
    const isBack = async () => (await guarded.has('20022')) && !(await guarded.has(String(API_SERVER)));
    await until('the confirmed rules are back', isBack, { detail: guarded.agent.log });
    await guarded.end();
    await plane.close();
  });
});

dataplaneSuite('guarded apply where ip6tables fails', IPTABLES_NFT, () => {
  let guarded: GuardedNode;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-ip6tables-'));
    for (const end of ['', '-save', '-restore']) await failing(folder, `ip6tables-nft${end}`);
    const program = await withPath(folder);
    guarded = await GuardedNode.create(IPTABLES_NFT, () => program);
  });
  after(async () => {
    await guarded?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('enforces IPv4, says so once, and takes back what cuts a probe of IPv4 off', async () => {
    const has = (text: string) =>
      until(`the rules have ${text}`, () => guarded.has(text), { detail: guarded.agent.log });
    await guarded.open(20_001);
    await guarded.start();
    await has('20001');
    await guarded.cut(20_002);
    await guarded.says('rolled back to the last confirmed rules');
    const isBack = async () => (await guarded.has('20001')) && !(await guarded.has('20002'));
    await until('the confirmed rules are back', isBack, { detail: guarded.agent.log });
    const said = guarded.agent.log();
    assert.equal(said.split('cannot apply the rules of IPv6; those of IPv4 are in force').length, 2, said);
    assert.doesNotMatch(said, /internal error|previous rules stay|cannot keep the sessions/);
    await guarded.end();
  });
});

dataplaneSuite('guarded apply where iptables fails for a while', IPTABLES_NFT, () => {
  let guarded: GuardedNode;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-iptables-'));
    const program = await withPath(folder);
    guarded = await GuardedNode.create(IPTABLES_NFT, () => program);
  });
  after(async () => {
    await guarded?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('confirms no change that IPv4 does not have, and tries it once IPv4 has it', async () => {
    const isSaved = async (text: string) => (await guarded.file('node-state.jsonl')).includes(text);
    await guarded.open(20_001);
    await guarded.start();
    await until('the first rules are confirmed', () => isSaved('20001'), { detail: guarded.agent.log });
    await failing(folder, 'iptables-nft-restore');
    await guarded.cut(20_002, 4);
    await guarded.says('cannot apply the rules of IPv4; those of IPv6 are in force');
    await guarded.says(TRIED);
    const refused = await guarded.node.asked('confirm');
    assert.match(refused.stderr, /not confirmed: the rules of IPv4 could not be changed yet/);
    // Also a change that denies nothing joins the one that is tried.
    await guarded.open(20_003);
    await guarded.says(TRIED, 2);
    assert.equal(await isSaved('20002'), false);
    await rm(join(folder, 'iptables-nft-restore'));
    await guarded.says('rolled back to the last confirmed rules');
    await until('the other change is confirmed', () => isSaved('20003'), { detail: guarded.agent.log });
    assert.equal(await isSaved('20002'), false);
    assert.match(guarded.agent.log(), /probe v4 failed .*rule cut\/out denies it/);
    await guarded.end();
  });
});

/** A program of iptables that does not work, before the machine's own. */
async function failing(folder: string, name: string): Promise<void> {
  const said = 'cannot initialize table filter: Address family not supported by protocol';
  await writeFile(join(folder, name), `#!/bin/sh\necho "${said}" >&2\nexit 3\n`, { mode: 0o755 });
}

/** Nodewall with the programs of this folder before others. */
async function withPath(folder: string): Promise<string> {
  const program = join(folder, 'nodewall');
  await writeFile(program, `#!/bin/sh\nPATH=${folder}:$PATH exec ${NODEWALL} "$@"\n`, { mode: 0o755 });
  return program;
}
