/**
 * Guarded apply, stand-alone: a change that cuts a probe off is taken back and held; what is
 * confirmed is what survives. test/kernel/guard.long.ts has many of each.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';
import { listen } from './talk.ts';
import { until } from './until.ts';

const PORT = 4443;

forEachDataplane('guarded apply', (dataplane) => {
  let node: EnforcedNode;
  let agent: RunningAgent;
  before(async () => {
    node = await createEnforcedNode(undefined, dataplane);
    const [client] = node.topology.clients;
    assert.ok(client);
    await listen(client, [PORT]);
  });
  after(() => node?.close());
  afterEach(async () => {
    await agent.end('SIGKILL');
    await node.clear();
    await Promise.all(['open.json', 'cut.json'].map((name) => node.remove(name).catch(() => undefined)));
  });

  const start = async (guard: object): Promise<void> => {
    const [first] = node.topology.plan.clientAddresses;
    const probes = [
      { name: 'v4', tcp: `${first?.v4}:${PORT}` },
      { name: 'v6', http: `http://[${first?.v6}]:${PORT + 1}/` },
    ];
    // A server on this host is not probed.
    const names = { servers: ['127.0.0.1'] };
    const config = { names, guard: { enabled: true, window: 1, failAfter: 1, probes, ...guard } };
    agent = node.start(...(await node.configure(config)));
  };
  const open = (port: number): Promise<void> =>
    node.write('open.json', [policy('open', { ingress: [{ action: 'Drop', ports: [tcp(port)] }] })]);
  const cut = (marker: number): Promise<void> =>
    node.write('cut.json', [
      policy('cut', { egress: [{ name: 'out', action: 'Drop', ports: [tcp(PORT), tcp(marker)] }] }),
    ]);
  const says = (text: string, times = 1) =>
    until(`the agent says ${text}`, async () => agent.log().split(text).length > times, { detail: agent.log });
  const remembers = (text: string) => async () =>
    (await readFile(join(node.stateDir, 'guard.json'), 'utf8')).includes(text);
  const has = async (text: string): Promise<boolean> => (await node.rules()).includes(text);

  it('confirms a change that the probes pass, and takes back one that cuts a probe off', async () => {
    await open(20_001);
    await start({});
    await node.untilEnforced('20001', agent);
    await says('the rules are confirmed');
    await cut(20_002);
    await node.untilEnforced('20002', agent);
    await says('rolled back to the last confirmed rules');
    await until('the old rules are back', async () => !(await has('20002')), { detail: agent.log });
    assert.ok(await has('20001'));
    assert.match(agent.log(), /"policy":"cut","reason":"rolled back: probe v4 failed[^"]*","rule":"out"|"rule":"out"/);
    await says('the probe passes again after the rollback');
    // Held: another change goes on without it.
    await open(20_003);
    await node.untilEnforced('20003', agent);
    assert.equal(await has('20002'), false);
    const records = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8');
    const { event, probe, policy: at, rule } = JSON.parse(records);
    assert.deepEqual({ event, probe, at, rule }, { event: 'rolledBack', probe: 'v4', at: 'cut', rule: 'out' });
    const { stdout } = await node.run('retry', 'cut', '-o', 'json');
    assert.deepEqual(JSON.parse(stdout), { retried: ['nodewall.io/cut'] });
    await node.untilEnforced('20002', agent);
  });

  it('after kill -9 and after a lost kernel state enforces the confirmed rules first', async () => {
    await open(20_011);
    await start({ confirm: 'Manual', timeout: 100 });
    await node.untilEnforced('20011', agent);
    assert.match((await node.run('confirm')).stdout, /Confirmed: nodewall.io\/open/);
    await cut(20_012);
    await node.untilEnforced('20012', agent);
    await says('tried, until nodewall confirm', 2);
    await node.lose();
    await says('it is tried again');
    await says('tried, until nodewall confirm', 3);
    assert.ok(await has('20012'));
    await until('the second attempt is remembered', remembers('"attempt":2'));
    await agent.end('SIGKILL');
    await start({ confirm: 'Manual', timeout: 100 });
    await says('it is held, and the last confirmed rules are enforced');
    await until('only the confirmed rules', async () => (await has('20011')) && !(await has('20012')), {
      detail: agent.log,
    });
  });
});
