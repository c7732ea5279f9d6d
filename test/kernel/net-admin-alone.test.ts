/**
 * The default agent has CAP_NET_ADMIN alone, and what strangers have in iptables-legacy can't be
 * read without CAP_NET_RAW.
 */
import assert from 'node:assert/strict';
import type { FakeControlPlane } from '../fake/control-plane.ts';
import { NODEWALL } from '../program.ts';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import { IPTABLES_LEGACY, skipWithout } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent, toRunningAgent } from './enforced-node.ts';
import { type ForeignRules, installForeignRules } from './foreign-rules.ts';
import { kernelSuite } from './kernel-suite.ts';
import { NODE_NAME, node as nodeManifest, policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const MARKER = 20_001;
const PORT = 8443;
const NET_ADMIN_ALONE = ['setpriv', '--bounding-set=-all,+net_admin', '--inh-caps=-all', '--'];
const GATE_OFF = ['--feature-gates', 'NodeNetworkPolicy=false'];
const HIDDEN = /"dataplane":"iptables \(legacy\)".*cannot check another dataplane for left-over rules/;

kernelSuite('CAP_NET_ADMIN alone, beside foreign rules in iptables-legacy', () => {
  let node: EnforcedNode;
  let foreign: ForeignRules;
  let others: string;
  const closing = policy('closed', {
    ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(MARKER)] }],
  });

  before(async function () {
    await skipWithout(this, IPTABLES_LEGACY);
    node = await createEnforcedNode();
    foreign = await installForeignRules(node.topology.node, [IPTABLES_LEGACY]);
    others = await foreign.list();
    await node.write('policy.json', [closing]);
  });
  after(() => node?.close());
  beforeEach(async () => {
    await node.again();
  });
  afterEach(async () => {
    assert.equal(await foreign.list(), others);
  });

  async function common(): Promise<string[]> {
    return ['--state-dir', node.stateDir, ...(await node.configure({}))];
  }
  async function run(...args: readonly string[]) {
    const argv = [...NET_ADMIN_ALONE, NODEWALL, ...args, ...(await common())];
    return node.topology.node.run(argv, { anyStatus: true });
  }
  const withManifests = (...args: readonly string[]) =>
    run('agent', '--once', '--node', NODE_NAME, '--manifests', node.manifests, ...args);

  it('enforces manifests', async () => {
    await node.lose();
    const { status, stderr, stdout } = await withManifests();
    assert.equal(status, 0, stderr);
    assert.match(`${stdout}${stderr}`, HIDDEN);
    assert.match(await node.rules(), new RegExp(`\\b${MARKER}\\b`));
  });

  it('removes the rules if the gate is off', async () => {
    const { status, stderr, stdout } = await withManifests(...GATE_OFF);
    assert.equal(status, 0, stderr);
    assert.match(`${stdout}${stderr}`, HIDDEN);
    assert.equal(await node.rules(), '');
  });

  it('cleans up the places it may read, and names the others', async () => {
    const { status, stdout, stderr } = await run('cleanup');
    assert.match(stdout, /^Removed table inet nodewall/);
    assert.match(stderr, /cannot check for left-over rules of nodewall.*: iptables \(legacy\)/);
    assert.equal(await node.rules(), '');
    assert.equal(status, 3);
    const again = await run('cleanup');
    assert.deepEqual([again.status, again.stdout], [3, '']);
  });

  describe('in a cluster', () => {
    let plane: FakeControlPlane;
    let agent: RunningAgent;

    before(async () => {
      plane = await clientControlPlane(node, PORT);
    });
    after(() => plane?.close());
    afterEach(() => agent?.end('SIGKILL'));

    it("enforces the saved state, then the controller's rules, until the gate is off", async () => {
      await node.lose();
      await plane.stop();
      const { origin } = plane.url;
      const files = ['--token-file', plane.tokenFile, '--ca-file', plane.caFile];
      const follow = ['agent', '--controller', origin, '--node', NODE_NAME, ...files, ...(await common())];
      agent = toRunningAgent(node.topology.node.spawn([...NET_ADMIN_ALONE, NODEWALL, ...follow]));
      await node.untilEnforced(String(MARKER), agent);
      assert.match(agent.log(), HIDDEN);
      await plane.start();
      const next = policy('closed', {
        ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(MARKER + 1)] }],
      });
      plane.publish(toState([nodeManifest(node.topology.plan), next], NODE_NAME));
      await node.untilEnforced(String(MARKER + 1), agent);
      plane.gate(false);
      const isOff = async () => agent.log().includes('"disabled"') && (await node.rules()) === '';
      await until('the rules are gone', isOff, { detail: agent.log });
      assert.ok(agent.isRunning());
    });
  });
});
