/**
 * The agent of a cluster in a namespace, against a controller that does what the test says: real
 * HTTPS over real links.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { FakeControlPlane } from '../fake/control-plane.ts';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { leakedDuring } from './flood-tool.ts';
import { NODE_NAME, node as nodeManifest, policy, tcp, udp } from './manifests.ts';
import { until } from './until.ts';

const CLOSED = 9;
const PORT = 8443;
const METRICS = '127.0.0.1:9412';
const USUAL: readonly string[] = ['--metrics-listen', METRICS, '--metrics-rules'];

forEachDataplane(
  'the agent of a cluster',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let plane: FakeControlPlane;
    let agent: RunningAgent;
    /** `agent` has no options of a test's own. */
    let isUsual = false;
    let marker = 20_000;

    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      plane = await clientControlPlane(node, PORT);
    });
    after(async () => {
      await node?.close();
      await plane?.close();
    });
    afterEach(async () => {
      plane.refuse(null);
      plane.fault(null);
      await plane.start();
    });

    function objects(...more: readonly object[]): object[] {
      const rules = [
        { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
        { name: 'marker', action: 'Drop', ports: [tcp(++marker)] },
      ] as const;
      return [nodeManifest(node.topology.plan), policy('closed', { ingress: rules }), ...more];
    }
    const stateOf = (all: readonly object[]): NodeState => toState(all, NODE_NAME);
    /** A state with another marker port. */
    const next = (...more: readonly object[]): NodeState => stateOf(objects(...more));

    /** Another agent, after the one that runs. */
    async function start(options: readonly string[]): Promise<void> {
      if (agent?.isRunning()) await agent.end('SIGKILL');
      agent = node.follow(plane.url, '--token-file', plane.tokenFile, '--ca-file', plane.caFile, ...options);
      isUsual = options === USUAL;
    }
    const follow = () => start(USUAL);
    /** For tests of what an agent does once it runs: that of an earlier test will do. */
    async function keepFollowing(): Promise<void> {
      if (!isUsual || !agent.isRunning()) await follow();
    }
    const get = async (path: string): Promise<string> => {
      const script = `fetch('http://${METRICS}${path}').then(async (r) => console.log(r.status, await r.text()))`;
      return (await node.topology.node.run([process.execPath, '-e', script])).stdout;
    };
    const untilMarked = () => node.untilEnforced(String(marker), agent);
    async function enforced(...more: readonly object[]): Promise<void> {
      plane.publish(next(...more));
      await untilMarked();
    }
    /** `before`: what it had logged when the test began. */
    async function untilSaid(text: string, before = ''): Promise<void> {
      const isSaid = async () => agent.log().slice(before.length).includes(text);
      await until(`the agent says ${text}`, isSaid, { detail: agent.log, news: agent.news });
    }
    const lastReport = () => plane.reports.at(-1);
    const untilReported = (what: (report: NonNullable<ReturnType<typeof lastReport>>) => boolean) =>
      plane.until(() => plane.reports.some(what));

    itOnce("enforces the controller's rules as they arrive, and reports", async () => {
      plane.publish(next());
      await follow();
      await untilMarked();
      await enforced();
      const [{ v4 } = assert.fail()] = node.topology.plan.nodeAddresses;
      const before = plane.reports.length;
      await enforced();
      await plane.until(() =>
        plane.reports.slice(before).some(({ revision, enforced: is }) => is === revision),
      );
      const report = lastReport();
      assert.equal(report?.node, NODE_NAME);
      assert.equal(report.enabled, true);
      assert.equal(report.policies, 1);
      assert.deepEqual(report.failing, []);
      assert.ok(report.hostAddresses.includes(v4), report.hostAddresses.join());
      assert.ok(!report.hostAddresses.includes('127.0.0.1'));
    });

    itOnce('serves health and metrics', async () => {
      await keepFollowing();
      await enforced();
      assert.match(await get('/healthz'), /^200 ok/);
      assert.match(await get('/readyz'), /^200 ok/);
      const metrics = await get('/metrics');
      for (const line of [
        'nodewall_agent_controller_connected 1',
        'nodewall_agent_enabled 1',
        'nodewall_agent_rules 2',
        'nodewall_agent_policies 1',
        'nodewall_agent_policies_failing 0',
        'nodewall_agent_apply_failures_total 0',
      ]) {
        assert.ok(metrics.includes(`${line}\n`), `${line}\n${metrics}`);
      }
      const labels = 'api_group="nodewall.io",policy="closed",rule="marker",direction="ingress"';
      assert.ok(metrics.includes(`nodewall_agent_rule_packets_total{${labels}} 0\n`), metrics);
      assert.match(metrics, /nodewall_agent_last_bookmark_timestamp_seconds 1\d/);
      const [received, inForce] = ['received', 'in_force'].map(
        (name) =>
          new RegExp(`^nodewall_agent_view_${name}_timestamp_seconds (\\S+)$`, 'm').exec(metrics)?.[1],
      );
      assert.match(received ?? '', /^1\d/);
      assert.equal(inForce, received, 'the newest view is in force');
      assert.match(metrics, /nodewall_agent_apply_duration_seconds_count [1-9]/);
    });

    itOnce('has the same rules, byte for byte, as a stand-alone agent of the same objects', async () => {
      const all = objects(policy('out', { egress: [{ name: 'o', action: 'Reject', ports: [tcp(81)] }] }));
      // Stand-alone nothing is tried.
      const config = await node.configure({ failsafe: { egress: [] }, guard: { enabled: false } });
      // That the marker is there is to say that the next agent has made the rules.
      if (agent?.isRunning()) await agent.end('SIGKILL');
      plane.publish(stateOf(all));
      await start(config);
      await untilMarked();
      const rules = await node.rules();
      await agent.end('SIGTERM');
      await node.cleanup();
      await node.write('all.json', all.slice(1));
      await node.again(...config);
      assert.equal(await node.rules(), rules);
      await node.remove('all.json');
    });

    itOnce('lets nothing through while agent and controller are killed and restarted', async () => {
      await keepFollowing();
      await enforced();
      const target = { protocol: 'udp', port: CLOSED, family: 4, client: 1 } as const;
      const { sent, leaked } = await leakedDuring(node.topology, target, async () => {
        plane.restart();
        await plane.until(() => plane.open() === 1);
        await enforced();
        await agent.end('SIGKILL');
        plane.publish(next());
        await follow();
        await untilMarked();
        await agent.end('SIGTERM');
        await plane.stop();
        await follow();
        await untilSaid('the controller does not answer');
        await plane.start();
        await enforced();
      });
      assert.ok(sent > 1000, `only ${sent} packets`);
      assert.equal(leaked, 0, `leaked ${leaked} of ${sent}`);
    });

    itOnce('changes nothing when the controller restarts', async () => {
      await keepFollowing();
      await enforced();
      await plane.until(() => lastReport()?.enforced === plane.revision());
      const applied = () => agent.log().split('"enforced"').length;
      const count = applied();
      const connects = plane.watches.length;
      const log = agent.log();
      plane.restart();
      await plane.until(() => plane.watches.length > connects && plane.open() === 1);
      await untilSaid('the controller answers again', log);
      assert.equal(applied(), count);
    });

    for (const [what, isLost] of [
      ['', false],
      [', also where the disk has lost what the cluster said', true],
    ] as const) {
      itOnce(`after a reboot without its controller, enforces the saved state${what}`, async () => {
        await keepFollowing();
        await enforced();
        const rules = await node.rules();
        await agent.end('SIGTERM');
        await plane.stop();
        await node.lose();
        if (isLost) await writeFile(join(node.stateDir, 'cluster.json'), '{"form');
        await follow();
        await untilMarked();
        assert.equal(await node.rules(), rules);
        await plane.start();
        await enforced();
      });
    }

    itOnce('repairs the rules in force while the controller does not answer', async function () {
      // 10 s of patience, then up to 10 s until the agent tries the controller again; more where a
      // busy disk holds its files up.
      this.timeout(300_000);
      await keepFollowing();
      await enforced();
      // The state is saved after it is in force: SIGKILL may come in between.
      const file = join(node.stateDir, 'node-state.jsonl');
      const saved = async () => (await readFile(file, 'utf8').catch(() => '')).includes(String(marker));
      await until('the state is saved', saved);
      await agent.end('SIGKILL');
      await plane.stop();
      await follow();
      const patient = async () =>
        agent.log().includes('enforcing the saved state until the controller answers');
      await until('its patience ends', patient, { detail: agent.log });
      await untilSaid('"message":"enforced"');
      await node.lose();
      await untilMarked();
      await plane.start();
      plane.publish(next());
      const isThere = async () => (await node.rules()).includes(String(marker));
      await until('the controller is followed again', isThere, { limit: 120_000, detail: agent.log });
    });

    it('reconnects under a blanket deny of egress', async () => {
      await keepFollowing();
      await enforced(policy('deny', { egress: [{ name: 'all', action: 'Drop' }] }));
      const connects = plane.watches.length;
      // A new connection, which no established one helps.
      plane.restart();
      await plane.until(() => plane.watches.length > connects && plane.open() === 1);
      await enforced(policy('deny', { egress: [{ name: 'all', action: 'Drop' }] }));
    });

    itOnce('keeps the endpoints of the cluster IPs on the failsafe list, also over a restart', async () => {
      await keepFollowing();
      await enforced(policy('deny', { egress: [{ name: 'all', action: 'Drop' }] }));
      const [address] = node.topology.plan.clientAddresses;
      assert.ok(address !== undefined);
      const isThere = async (port: number): Promise<boolean> => (await node.rules()).includes(String(port));
      plane.endpoints([
        { port: 6443, addresses: ['10.96.0.1'] },
        { port: 24_443, addresses: [address.v4] },
      ]);
      await until('the port is on the list', () => isThere(24_443));
      await agent.end('SIGTERM');
      await plane.stop();
      await node.lose();
      await follow();
      await until('it is there again', () => isThere(24_443));
      await plane.start();
    });

    itOnce('follows the gate: when it is off, the kernel has no rule of nodewall', async () => {
      await keepFollowing();
      await enforced();
      plane.gate(false);
      await until('the rules are gone', async () => (await node.rules()) === '');
      await untilReported(({ enabled, enforced: is, policies }) => !enabled && is === null && policies === 0);
      await agent.end('SIGTERM');
      await plane.stop();
      await follow();
      await untilSaid('the controller does not answer');
      assert.equal(await node.rules(), '', 'it was off');
      await plane.start();
      plane.gate(true);
      await untilMarked();
      await enforced();
    });

    for (const [what, off] of [
      ['the command', () => node.ask('off', '--reason', 'locked out')],
      ['touch', () => writeFile(join(node.stateDir, 'off'), '')],
    ] as const) {
      itOnce(
        `stays off after ${what}, over a restart and with any controller message, until nodewall on`,
        async () => {
          await keepFollowing();
          await enforced();
          await off();
          await until('the rules are gone', async () => (await node.rules()) === '');
          const reason = what === 'touch' ? '' : 'locked out';
          await untilReported(
            (report) => report.off === reason && report.enabled && report.enforced === null,
          );
          plane.publish(next());
          await agent.end('SIGKILL');
          const before = plane.reports.length;
          await follow();
          await plane.until(() => plane.reports.slice(before).some(({ revision }) => revision !== null));
          assert.equal(await node.rules(), '');
          await node.ask('on');
          await untilMarked();
          await plane.until(() => lastReport()?.off === undefined);
          await enforced();
        },
      );
    }

    itOnce(
      'after nodewall on, waits for the controller, although its request is not answered yet',
      async () => {
        await keepFollowing();
        await enforced();
        await agent.end('SIGTERM');
        await node.ask('off');
        const old = String(marker);
        plane.publish(next());
        plane.refuse(() => 'hang');
        await follow();
        await untilSaid('"message":"disabled"');
        await plane.until(() => plane.hanging() > 0);
        plane.refuse(null);
        await node.ask('on');
        let rules = '';
        const isThere = async (): Promise<boolean> => {
          rules = await node.rules();
          return rules !== '';
        };
        await until('something is enforced', isThere, { detail: agent.log });
        assert.ok(!rules.includes(old), agent.log());
        await enforced();
      },
    );

    itOnce('after a start from the saved state, follows a controller without rules', async () => {
      await keepFollowing();
      await enforced();
      await agent.end('SIGKILL');
      plane.restart();
      plane.publish({ ...stateOf([nodeManifest(node.topology.plan)]), rules: [] });
      const before = plane.reports.length;
      await follow();
      await plane.until(() => plane.reports.slice(before).some(({ enforced: is }) => is !== null));
      assert.equal(lastReport()?.policies, 0);
      assert.ok(!(await node.rules()).includes(String(marker)));
      await enforced();
    });

    itOnce('reports that a view cannot be applied in log, health, metric and report', async () => {
      await keepFollowing();
      await enforced();
      const log = agent.log();
      const rules = await node.rules();
      plane.fault((line) => line.replace(/"rules":\d+,/, '"rules":77,'));
      plane.publish(next());
      await untilReported(({ viewError }) => /the controller says 77/.test(viewError ?? ''));
      const lines = agent.log().split('\n');
      const said = lines.find((line) => line.includes('"message":"cannot apply the controller\'s view'));
      assert.match(said ?? '', /"level":"error"/);
      assert.ok(!agent.log().slice(log.length).includes('the controller does not answer'));
      assert.match(await get('/readyz'), /^503 cannot apply the controller's view/);
      assert.match(await get('/healthz'), /^200/);
      assert.match(await get('/metrics'), /nodewall_agent_view_unfollowable 1\n/);
      assert.equal(await node.rules(), rules);
      plane.fault(null);
      await untilMarked();
      await plane.until(() => lastReport()?.viewError === undefined);
      assert.match(await get('/readyz'), /^200 ok/);
    });

    itOnce("stays off if it is off on this machine, whatever the cluster's gate", async () => {
      plane.publish(next());
      const before = plane.reports.length;
      await start(['--feature-gates', 'NodeNetworkPolicy=false']);
      await plane.until(() =>
        plane.reports.slice(before).some(({ enabled, revision }) => !enabled && revision !== null),
      );
      assert.equal(await node.rules(), '');
      assert.match(agent.log(), /off on this machine/);
    });

    for (const [what, more, reason] of [
      ['', { peers: [{ kind: 'interfaces', groups: ['no-such-group'] }] }, /no-such-group/],
      [' of a newer controller', { users: ['a'] }, /needs a newer agent: .* field "users"/],
    ] as const)
      itOnce(
        `leaves out policies${what} that it cannot enforce, reports them, and enforces the rest`,
        async () => {
          const state = next(policy('good', { ingress: [{ name: 'g', action: 'Drop', ports: [tcp(82)] }] }));
          const broken = (rule: CompiledRule): CompiledRule =>
            rule.source.policy === 'good' ? { ...rule, ...more } : rule;
          const before = plane.reports.length;
          await keepFollowing();
          plane.publish({ ...state, rules: state.rules.map(broken) });
          await untilMarked();
          const isFailing = ({ failing }: NodeReport): boolean => failing.length > 0;
          await plane.until(() => plane.reports.slice(before).some(isFailing));
          const [failing] = lastReport()?.failing ?? [];
          assert.equal(failing?.policy, 'good');
          assert.equal(failing.rule, 'g');
          assert.match(failing.reason, reason);
          assert.equal(lastReport()?.policies, 1);
          await enforced();
          await plane.until(() => lastReport()?.failing.length === 0);
        },
      );

    itOnce('reports NodePort policies as not enforced beside IPVS', async () => {
      await keepFollowing();
      await enforced();
      const before = agent.log();
      const rule = { name: 'all', action: 'Drop' } as const;
      const nodePort = policy('node-port', { traffic: 'NodePort', ingress: [rule] });
      const link = (...words: string[]) => node.topology.node.run(['ip', 'link', ...words]);
      await link('add', 'kube-ipvs0', 'type', 'bridge');
      await untilSaid('Services are kube-proxy in mode ipvs', before);
      await enforced(nodePort);
      const failing = () => lastReport()?.failing ?? [];
      await plane.until(() => failing().length > 0);
      const [first] = failing();
      assert.deepEqual([first?.policy, first?.rule, first?.notEnforced], ['node-port', null, true]);
      const { stdout } = await node.asked('check', '--machine');
      assert.match(stdout, /^warning +service proxy +Services are kube-proxy in mode ipvs/m);
      await link('del', 'kube-ipvs0');
      await untilSaid('NodePort policies are enforced again', before);
      await enforced();
      await enforced(nodePort);
      await plane.until(() => failing().length === 0);
    });

    itOnce('logs once that the controller rejects its token, with advice', async () => {
      plane.refuse(() => ({ status: 403, message: 'the token is of node-1' }));
      await follow();
      await untilSaid('an agent may read the view of its own node only');
      assert.equal(agent.log().match(/"the controller does not answer/g)?.length, 1);
    });
  },
  EITHER_IPTABLES,
);
