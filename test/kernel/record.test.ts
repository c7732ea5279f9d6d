/** What rules with logging write of real connections, and what they count. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { NO_ACCOUNTS, type SavedAccounts } from '../../agent/record/accounting.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { addressPlan } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { passedDuring } from './flood-tool.ts';
import type { Flow } from './flow.ts';
import { policy, type Rule, tcp, udp } from './manifests.ts';
import { pause, until } from './until.ts';
import { observe } from './verdicts.ts';

const ACTIONS = ['Allow', 'Drop', 'Reject', 'Pass'] as const;
const PROTOCOLS = ['tcp', 'udp', 'sctp'] as const;
const MARKER = 21_000;

interface Line {
  readonly verdict?: string;
  readonly audit?: boolean;
  readonly rule?: string;
  readonly suppressed?: number;
  readonly after?: string;
  readonly [key: string]: unknown;
}

interface CountedRule {
  readonly id: string;
  readonly rule: string;
  readonly packets: number;
  readonly bytes: number;
  readonly lastHit: string | null;
}

forEachDataplane(
  'the record',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let agent: RunningAgent | undefined;
    let marker = MARKER;
    /** Records of earlier tests. */
    let earlier = 0;
    const plan = addressPlan({ groups: [9, 42] });
    const makeNode = async () => {
      node = await createEnforcedNode(plan, dataplane);
      agent = undefined;
      earlier = 0;
    };
    const closeNode = () => node?.close();

    function logged(rule: Rule, label?: string): Rule {
      const log = { enableLogging: true, ...(label === undefined ? {} : { logLabel: label }) };
      return { ...rule, ...log };
    }
    const recordFile = () => join(node.stateDir, 'records.jsonl');
    /** Of this test. */
    const records = (): Line[] => {
      const text = existsSync(recordFile()) ? readFileSync(recordFile(), 'utf8') : '';
      return text
        .split('\n')
        .filter(Boolean)
        .slice(earlier)
        .map((line) => JSON.parse(line));
    };
    /** Writes a policy, and waits until it is in force. */
    async function enforce(
      options: Parameters<typeof policy>[1] & object,
      ...config: string[]
    ): Promise<void> {
      marker++;
      const end: Rule = { name: 'marker', action: 'Drop', ports: [tcp(marker)] };
      await node.write('policy.json', [
        policy('recorded', options),
        policy('marker', { ingress: [end], priority: 9000 }),
      ]);
      agent ??= node.start(...config);
      await node.untilEnforced(String(marker), agent);
      // What `nodewall rules` reads is saved once the rules are in force.
      const saved = join(node.stateDir, 'node-state.jsonl');
      const hasMarker = async () =>
        existsSync(saved) && readFileSync(saved, 'utf8').includes(`[${marker},${marker}]`);
      await until('the state is saved', hasMarker, { detail: () => agent?.log().slice(-2000) ?? '' });
    }
    async function untilRecords(count: number): Promise<Line[]> {
      await until(`${count} records`, async () => records().length >= count, {
        detail: () => `${JSON.stringify(records().slice(-5), null, 1)}\n${agent?.log().slice(-2000)}`,
      });
      // One too many would arrive as soon.
      await pause(100);
      return records();
    }
    async function rules(): Promise<Map<string, CountedRule>> {
      const { stdout } = await node.ask('rules', '-o', 'json');
      const found = JSON.parse(stdout) as { rules: CountedRule[] };
      return new Map(found.rules.map((rule) => [rule.rule, rule]));
    }

    describe('of one agent', () => {
      before(makeNode);
      beforeEach(() => {
        earlier += records().length;
      });
      after(closeNode);

      itOnce('does not listen if no rule is logged', async () => {
        await enforce({ ingress: [{ name: 'open', action: 'Allow', ports: [tcp(5000)] }] });
        const groups = async () =>
          (await node.topology.node.run(['cat', '/proc/net/netfilter/nfnetlink_log'])).stdout
            .split('\n')
            // The agent's lock of the network namespace.
            .filter((line) => !/^\s*65412 /.test(line))
            .join('\n')
            .trimEnd();
        assert.equal(await groups(), '');
        await enforce({ ingress: [logged({ name: 'open', action: 'Allow', ports: [tcp(5000)] })] });
        assert.match(await groups(), /^\s*7411 /);
        await enforce({ ingress: [{ name: 'open', action: 'Allow', ports: [tcp(5000)] }] });
        await until('the group is given back', async () => (await groups()) === '');
        assert(!existsSync(recordFile()));
      });

      it('records every action, protocol, family and direction correctly', async () => {
        const port = (action: number, protocol: number) => 3000 + 10 * action + protocol;
        const ruleOf = (action: (typeof ACTIONS)[number], i: number, direction: string): Rule =>
          logged(
            {
              name: `${direction}-${action.toLowerCase()}`,
              action,
              ports: PROTOCOLS.map((protocol, j) => ({ protocol: protocol.toUpperCase(), port: port(i, j) })),
            },
            `label-${action}`,
          );
        const list = (direction: string) => [
          ...ACTIONS.map((action, i) => ruleOf(action, i, direction)),
          logged({ name: `${direction}-ping`, action: 'Allow', protocols: [{ icmp: {} }] }),
        ];
        await enforce({ tier: 'securityops', ingress: list('ingress'), egress: list('egress') });
        const flows: Flow[] = [];
        for (const direction of ['ingress', 'egress'] as const) {
          for (const family of ['v4', 'v6'] as const) {
            const ends = [plan.nodeAddresses[0]?.[family] ?? '', ''];
            const remotes = [0, 1].map(
              (c) => plan.clientAddresses.find(({ client }) => client === c)?.[family] ?? '',
            );
            for (const [c, remote] of remotes.entries()) {
              const [src = '', dst = ''] = direction === 'ingress' ? [remote, ends[0]] : [ends[0], remote];
              const ports = { srcPort: 40_000 + c };
              for (const [i] of ACTIONS.entries()) {
                for (const [j, protocol] of PROTOCOLS.entries()) {
                  flows.push({ direction, src, dst, protocol, ...ports, dstPort: port(i, j) });
                }
              }
              const type =
                family === 'v4' ? { protocol: 'icmp', icmpType: 8 } : { protocol: 'icmpv6', icmpType: 128 };
              flows.push({ direction, src, dst, icmpCode: 0, ...type } as Flow);
            }
          }
        }
        const verdicts = await observe(node.topology, flows);
        const found = await untilRecords(flows.length);
        assert.equal(found.length, flows.length);
        for (const [i, flow] of flows.entries()) {
          const { direction, src, dst, protocol } = flow;
          const key = (one: object) =>
            JSON.stringify(one, ['direction', 'src', 'dst', 'protocol', 'dstPort', 'icmpType']);
          const own = found.filter((line) => key(line) === key(flow));
          assert.equal(own.length, 1, JSON.stringify(flow));
          const client = (direction === 'ingress' ? src : dst).match(/^(10\.10|fd90:10)0/) ? 0 : 1;
          const action =
            flow.dstPort === undefined ? 'Allow' : ACTIONS[Math.floor((flow.dstPort - 3000) / 10)];
          const { time, length, ...line } = own[0] ?? {};
          assert.deepEqual(line, {
            node: 'node-0',
            verdict: action,
            policy: 'recorded',
            apiGroup: 'nodewall.io',
            tier: 'securityops',
            rule: `${direction}-${flow.dstPort === undefined ? 'ping' : action?.toLowerCase()}`,
            ruleIndex: flow.dstPort === undefined ? 4 : Math.floor((flow.dstPort - 3000) / 10),
            ...(flow.dstPort === undefined ? {} : { label: `label-${action}` }),
            direction,
            traffic: 'Host',
            src,
            dst,
            protocol,
            ...(flow.dstPort === undefined
              ? { icmpType: flow.icmpType, icmpCode: 0 }
              : { srcPort: flow.srcPort, dstPort: flow.dstPort }),
            interface: `c${client}`,
            interfaceGroup: client === 0 ? 'clusternet' : 42,
          });
          assert.equal(verdicts[i], action === 'Pass' ? 'Allow' : action, JSON.stringify(flow));
          assert(Math.abs(Date.parse(String(time)) - Date.now()) < 60_000, String(time));
          assert(Number(length) >= 28 && Number(length) < 200, String(length));
        }
      });

      it("records an Audit policy's verdict without enforcing it", async () => {
        const close = { name: 'close', action: 'Drop', ports: [tcp(4000, 4001)] } as const;
        const refuse = { name: 'refuse', action: 'Reject', ports: [tcp(4001, 4002)] } as const;
        await enforce({ mode: 'Audit', ingress: [close, refuse] } as object);
        const [client] = plan.clientAddresses;
        const flows = [4000, 4001, 4002].map(
          (dstPort): Flow => ({
            direction: 'ingress',
            src: client?.v4 ?? '',
            dst: plan.nodeAddresses[0]?.v4 ?? '',
            protocol: 'tcp',
            srcPort: 41_000,
            dstPort,
          }),
        );
        assert.deepEqual(await observe(node.topology, flows), ['Allow', 'Allow', 'Allow']);
        const found = (await untilRecords(4)).map(({ verdict, audit, rule, dstPort, after }) => [
          verdict,
          audit,
          rule,
          dstPort,
          after,
        ]);
        assert.deepEqual(found, [
          ['Drop', true, 'close', 4000, undefined],
          ['Drop', true, 'close', 4001, undefined],
          ['Reject', true, 'refuse', 4001, 'recorded/close'],
          ['Reject', true, 'refuse', 4002, undefined],
        ]);
        const counted = await rules();
        assert.deepEqual([counted.get('close')?.packets, counted.get('refuse')?.packets], [2, 2]);
      });

      itOnce('records nothing on a reload or for established connections', async () => {
        const open = logged({ name: 'open', action: 'Allow', ports: [tcp(5000)] });
        await enforce({ ingress: [open] });
        await connect(5000);
        await untilRecords(1);
        for (let i = 0; i < 3; i++) await enforce({ ingress: [open], priority: 6 + i });
        await agent?.end('SIGTERM');
        agent = undefined;
        await enforce({ ingress: [open] });
        await pause(1500);
        assert.equal(records().length, 1);
        await connect(5000);
        await untilRecords(2);
      });
    });

    describe('of an agent for each test', () => {
      beforeEach(makeNode);
      afterEach(closeNode);

      itOnce('adds up: matched = recorded + suppressed, over a flood', async () => {
        const config = await node.configure({ log: { rate: 20, burst: 30 } });
        const one = logged({ name: 'flooded', action: 'Drop', ports: [udp(9)] });
        const oneWay = logged({ name: 'one-way', action: 'Allow', ports: [udp(10)] });
        await enforce({ ingress: [one, oneWay] }, ...config);
        const floods = [9, 10].map((port) => ({ protocol: 'udp', port, family: 4, rate: 5000 }) as const);
        await passedDuring(node.topology, floods, () => pause(3000));
        const sum = (name: string) =>
          records()
            .filter(({ rule }) => rule === name)
            .reduce(
              (total, { verdict, suppressed = 0 }) => total + suppressed + (verdict === undefined ? 0 : 1),
              0,
            );
        await until(
          'all is accounted for',
          async () => {
            const counted = await rules();
            return ['flooded', 'one-way'].every((name) => sum(name) === counted.get(name)?.packets);
          },
          { limit: 25_000, detail: () => `${sum('flooded')} ${sum('one-way')} ${agent?.log().slice(-500)}` },
        );
        const plain = records().filter(({ rule, verdict }) => rule === 'flooded' && verdict !== undefined);
        assert(plain.length >= 30 && plain.length <= 30 + 20 * 6, `${plain.length} records`);
        assert(sum('flooded') > 10_000, `${sum('flooded')} packets`);
      });

      it('keeps counting over an edit, a restart, kill -9, lost rules and a reboot', async () => {
        const open = (more: object = {}): Rule => ({
          name: 'open',
          action: 'Allow',
          ports: [tcp(5000)],
          ...more,
        });
        let connections = 0;
        let id = '';
        /** Of the rule, by all chains that it has and had. */
        const savedPackets = async (): Promise<number> => {
          const text = await stateFile(node.stateDir, 'counters.json').read();
          const { chains, rules: gone }: SavedAccounts = text === null ? NO_ACCOUNTS : JSON.parse(text);
          const there = chains.filter(({ rule }) => rule === id);
          return there.reduce((sum, { packets }) => sum + packets, gone[id]?.packets ?? 0);
        };
        const assertCounted = async (what: string) => {
          // What chains that are gone had counted is saved a moment after the change.
          let last: CountedRule = { id, rule: 'open', packets: -1, bytes: -1, lastHit: null };
          const isCounted = async () => {
            last = (await rules()).get('open') ?? last;
            id = last.id;
            return last.packets === connections && (last.lastHit === null) === (connections === 0);
          };
          const detail = () => `${JSON.stringify(last)}, not ${connections}\n${agent?.log().slice(-1500)}`;
          await until(what, isCounted, { limit: 20_000, detail });
          assert.equal(last.bytes, 60 * connections, what);
        };
        const again = async (what: string) => {
          await assertCounted(what);
          await connect(5000);
          connections++;
          await assertCounted(`${what}, then a connection`);
        };
        await enforce({ ingress: [open()] });
        await again('at first');
        await enforce({ ingress: [open({ ports: [tcp(5000), tcp(5001)] })] });
        await again('another text');
        await enforce({ ingress: [logged(open())] });
        await again('with a record');
        for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
          await agent?.end(signal);
          await again(`after ${signal}`);
          agent = undefined;
          await enforce({ ingress: [open()], priority: signal === 'SIGTERM' ? 7 : 8 });
          await again(`after ${signal} and a start`);
        }
        // What a stranger deletes is gone as it was last read; a change is followed by a reading.
        await enforce({ ingress: [open()], priority: 9 });
        await assertCounted('after another change');
        // On a machine with much else to do that is as late as the next of its own.
        await until('the counters are saved', async () => (await savedPackets()) === connections, {
          limit: 60_000,
        });
        await node.lose();
        await node.untilEnforced(String(marker), agent);
        await again('after the rules were deleted');
        await agent?.end('SIGTERM');
        await node.lose();
        await assertCounted('without rules');
        agent = undefined;
        await enforce({ ingress: [open()] });
        await again('after a reboot');
        await enforce({ ingress: [{ ...open(), name: 'renamed' }] });
        assert.equal((await rules()).get('renamed')?.packets, 0, 'another rule');
      });
    });

    /** A TCP connection with some words each way. */
    async function connect(port: number): Promise<void> {
      const [client] = node.topology.clients;
      const address = plan.nodeAddresses[0]?.v4 ?? '';
      const server = node.topology.node.spawn([await probeProgram(), 'listen', `tcp:${port}`]);
      try {
        await new Promise((resolve) => server.stdout.once('data', resolve));
        const words = `for i in 1 2 3; do echo $i >&3; read -r -t 30 <&3; done`;
        await client?.run(['bash', '--norc', '-ec', `exec 3<>/dev/tcp/${address}/${port}; ${words}`]);
      } finally {
        server.kill('SIGKILL');
      }
    }
  },
  EITHER_IPTABLES,
);
