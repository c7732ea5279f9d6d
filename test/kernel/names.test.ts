/**
 * fqdn peers: real DNS questions and answers between namespaces, and the connections that follow.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encode } from 'dns-packet';
import { NAMES_FILE } from '../../agent/names/saved-names.ts';
import { type DnsProcess, dnsProcess } from '../dns/process.ts';
import type { Zone } from '../dns/zone.ts';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';
import { pause, until } from './until.ts';

const PORT = 8080;
const PLAN = addressPlan({ clients: 2, addressesPerClient: 4, nodeAddresses: 1 });
const APPLICATION = join(import.meta.dirname, '..', 'dns', 'application.ts');

function addressesOf(client: number): { v4: string; v6: string }[] {
  return PLAN.clientAddresses.filter((one) => one.client === client);
}
const [resolver = { v4: '', v6: '' }] = addressesOf(0);
const [first = '', second = '', third = ''] = addressesOf(1).map(({ v4 }) => v4);
const six = addressesOf(1)[0]?.v6 ?? '';

const NAMES = { servers: [resolver.v4], minimumTTL: 1, keep: 2, stale: 60 };

/** What an application on the node got to. */
interface Outcome {
  readonly address?: string;
  readonly milliseconds?: number;
  readonly error?: string;
}

/** Milliseconds: a connection that took less needed one SYN, which Linux repeats after a second. */
const BEFORE_SYN_AGAIN = 950;

forEachDataplane(
  'names',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let dns: DnsProcess;
    let config: string[];
    let agent: RunningAgent;

    beforeEach(async () => {
      node = await createEnforcedNode(PLAN, dataplane);
      const [servers, web] = node.topology.clients as [Namespace, Namespace];
      dns = await dnsProcess(servers, resolver.v4, {});
      const listener = web.spawn([await probeProgram(), 'listen', `tcp:${PORT}`]);
      await once(listener.stdout, 'data');
      config = await node.configure({
        // The clients are behind veth pairs, as pods are.
        exemptions: { localPods: false },
        names: NAMES,
      });
    });
    afterEach(async () => {
      await node?.close();
    });

    /** Names may be reached on one port; nothing else leaves the node but DNS. */
    async function allow(...names: readonly string[]): Promise<void> {
      const to = names.map((fqdn) => ({ fqdn }));
      const egress = [
        { name: 'names', action: 'Allow', to, ports: [tcp(PORT)] },
        { name: 'rest', action: 'Drop' },
      ] as const;
      await node.write('names.json', [policy('names', { egress })]);
    }
    async function start(): Promise<void> {
      agent = node.start(...config);
      await node.untilEnforced('names', agent);
    }
    async function application(name: string, server = resolver.v4): Promise<Outcome> {
      const { stdout } = await node.topology.node.run(
        [process.execPath, APPLICATION, String(PORT), name, server],
        { anyStatus: true },
      );
      return JSON.parse(stdout);
    }
    async function assertReached(name: string, address: string, within: number): Promise<void> {
      const outcome = await application(name);
      assert.equal(outcome.address, address, `${name}: ${JSON.stringify(outcome)}\n${agent?.log()}`);
      assert((outcome.milliseconds ?? 0) < within, `${name} after ${outcome.milliseconds} ms`);
    }
    const assertSilent = async (name: string): Promise<void> =>
      assert.deepEqual(await application(name), { error: 'silence' }, name);
    /** Asks the silent server for the name, and lets another one answer at once. */
    async function forgedAnswer(
      rogue: Namespace,
      { name, address, to }: { readonly name: string; readonly address: string; readonly to: string },
    ): Promise<void> {
      const questions = [{ type: 'A', name } as const];
      const asked = encode({ type: 'query', id: 7, questions });
      const answers = [{ type: 'A', name, ttl: 60, data: address } as const];
      const forged = encode({ type: 'response', id: 7, questions, answers });
      const send = (message: Buffer, from: string, [target, port]: readonly [string, number]) => [
        process.execPath,
        '-e',
        `const s = require('dgram').createSocket('udp4');
        s.bind(${from}, () => s.send(Buffer.from('${message.toString('hex')}', 'hex'), ${port}, '${target}', () => s.close()));`,
      ];
      await node.topology.node.run(send(asked, `40000, '${to}'`, [resolver.v4, 53]));
      await rogue.run(send(forged, `53, '${second}'`, [to, 40_000]));
    }
    const untilLogged = (text: string) =>
      until(`the log says ${text}`, async () => agent.log().includes(text), { detail: () => agent.log() });
    const untilInSet = (address: string) =>
      until(`a set holds ${address}`, async () => (await node.rules()).includes(address), {
        detail: () => agent?.log() ?? '',
      });

    it('learns the answers to an application before its first packet is repeated, also after kill -9', async () => {
      const zone: Zone = {
        'x.w.test': { A: [first], chain: ['cdn.elsewhere.test'], ttl: 60 },
        'w.test': { A: [second] },
        'x.other.test': { A: [third] },
      };
      await dns.serve(zone);
      await allow('*.w.test');
      await start();
      await assertSilent(first);
      // The first packet may be dropped; TCP sends the next one a second later.
      await assertReached('x.w.test', first, 1_500);
      for (const name of ['w.test', 'x.other.test']) await assertSilent(name);
      const saved = join(node.stateDir, NAMES_FILE);
      const isSaved = async () => (await readFile(saved, 'utf8').catch(() => '')).includes(first);
      await until('the answer is saved', isSaved);
      await agent.end('SIGKILL');
      await dns.stop();
      await assertReached(first, first, BEFORE_SYN_AGAIN);
      agent = node.start(...config);
      await untilLogged('enforced');
      await assertReached(first, first, BEFORE_SYN_AGAIN);
    });

    itOnce('resolves names without a wildcard, in both families, and follows their changes', async () => {
      await dns.serve({ 'a.test': { A: [first], AAAA: [six], ttl: 1 } });
      await allow('a.test');
      await start();
      await untilInSet(first);
      await assertReached(first, first, BEFORE_SYN_AGAIN);
      assert((await node.rules()).includes(six));
      await assertSilent(second);
      await dns.serve({ 'a.test': { A: [second], ttl: 1 } });
      await untilInSet(second);
      await assertReached(second, second, BEFORE_SYN_AGAIN);
      await until(`${first} is gone`, async () => !(await node.rules()).includes(first));
      await assertSilent(first);
    });

    itOnce('keeps the addresses of a name without answers, and logs it', async () => {
      await dns.serve({ 'a.test': { A: [first], ttl: 1 } });
      await allow('a.test');
      await start();
      await untilInSet(first);
      await dns.serve({ 'a.test': { silent: true } });
      await untilLogged('names no longer resolve');
      // Far beyond its TTL and `keep`.
      await pause(4_000);
      await assertReached(first, first, BEFORE_SYN_AGAIN);
      // Not even a restart loses it.
      await agent.end('SIGTERM');
      agent = node.start(...config);
      await untilLogged('enforced');
      await assertReached(first, first, BEFORE_SYN_AGAIN);
      await dns.serve({ 'a.test': { A: [first], ttl: 1 } });
      await untilLogged('names resolve again');
    });

    itOnce('resolves before `agent --once` applies, for a limited time', async () => {
      await dns.serve({ 'a.test': { A: [first] }, 'silent.test': { silent: true } });
      await allow('a.test', 'silent.test', '*.w.test');
      const began = performance.now();
      const { stderr } = await node.again(...config);
      // It waits for a few seconds; a machine that has other work needs longer.
      assert(performance.now() - began < 30_000);
      await assertReached(first, first, BEFORE_SYN_AGAIN);
      assert.match(stderr, /names do not resolve.*silent\.test/);
      const { stdout } = await node.ask('names', '-o', 'json');
      const [known] = JSON.parse(stdout).names;
      assert.deepEqual([known.name, known.addresses[0].address], ['a.test', first]);
    });

    itOnce('keeps working under garbage, forged answers and hundreds of records', async () => {
      const many = Array.from({ length: 500 }, (_, i) => `198.18.${i >> 8}.${i & 255}`);
      await dns.serve({
        'x.w.test': { A: [first], ttl: -1 },
        'many.w.test': { A: many, ttl: 2 ** 31 - 1 },
        'loop.w.test': { chain: ['y.w.test', 'loop.w.test'] },
        'garbage.w.test': { garbage: true },
        'poison.w.test': { A: [first], poison: { name: 'y.w.test', address: third } },
        'many.test': { A: many },
      });
      await allow('*.w.test', 'many.test');
      await start();
      for (const name of ['many.w.test', 'loop.w.test', 'garbage.w.test', 'poison.w.test'])
        await application(name);
      await untilInSet('198.18.1.243');
      await assertReached('x.w.test', first, 1_500);
      await assertSilent(third);
      assert(agent.isRunning());
    });

    itOnce('believes the servers of the node only, and learns no address of the node itself', async () => {
      const [, web] = node.topology.clients as [Namespace, Namespace];
      const rogue = await dnsProcess(web, first, { 'x.w.test': { A: [second] }, 'y.w.test': { A: [third] } });
      const [own] = PLAN.nodeAddresses;
      await dns.serve({
        'own.w.test': { A: [own?.v4 ?? '', '169.254.169.254', '127.0.0.1'] },
        'z.w.test': { silent: true },
      });
      await allow('*.w.test');
      await start();
      assert.deepEqual(await application('x.w.test', first), { error: 'silence' }, agent.log());
      await application('own.w.test');
      await untilLogged('wildcards learn no loopback');
      assert.doesNotMatch(await node.rules(), /169\.254\.169\.254/);
      // An answer of another server than the one that was asked, with the right port and number.
      await forgedAnswer(web, { name: 'z.w.test', address: third, to: own?.v4 ?? '' });
      await assertSilent(third);
      // The same server is believed where the configuration lets anybody answer.
      await agent.end('SIGTERM');
      config = await node.configure({
        exemptions: { localPods: false },
        names: { ...NAMES, learnFrom: ['0.0.0.0/0'] },
      });
      agent = node.start(...config);
      await untilLogged('enforced');
      assert.equal((await application('y.w.test', first)).address, third, agent.log());
      await rogue.stop();
    });

    itOnce('copies no DNS answers, and saves nothing, without fqdn peers', async () => {
      await node.write('names.json', [
        policy('names', { egress: [{ name: 'names', action: 'Drop', ports: [tcp(9)] }] }),
      ]);
      await start();
      const groups = await readFile(`/proc/${node.topology.node.pid}/net/netfilter/nfnetlink_log`, 'utf8');
      assert.doesNotMatch(groups, /^ *7412 /m);
      assert.doesNotMatch(await node.rules(), /7412/);
      assert(!existsSync(join(node.stateDir, 'names.jsonl')));
    });
  },
  EITHER_IPTABLES,
);
