/**
 * Guarded apply in a real cluster: probes from the controller that leads and from another agent,
 * what a rollback says to whom, and how a change is tried again.
 */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PolicyStatus } from '../../../apis/policy-status.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { succeeds, until } from '../../kernel/until.ts';
import { failures, GUARD } from '../labs.ts';
import { closed, type Story } from '../story-bed.ts';

const NODE = 'worker-1';
const METRICS = '127.0.0.1:9090';
const COUNT = 'these probes to the node pass';
const BACK = 'rolled back to the last confirmed rules';

interface EventObject {
  readonly reason: string;
  readonly note?: string;
  readonly message?: string;
  readonly involvedObject: { readonly name: string };
}

kernelSuite('guarded apply in a cluster', () => {
  const bed = failures.use();
  let story: Story;
  before(async () => {
    ({ story } = bed());
    const agent = agentOf();
    await agent.end('SIGTERM');
    // Machines answer on their ports from now on.
    await story.sees('other0', NODE, 22, 'open');
    agent.start('--config', bed().config, '--metrics-listen', METRICS);
    await agent.says(COUNT);
    await until('all probes count', async () => probersOf().size === GUARD.probes.length, {
      detail: agent.log,
    });
  });
  after(async () => {
    await story.withoutPolicies();
    for (const agent of Object.values(story.agents)) {
      await agent.end('SIGTERM');
      agent.start();
    }
  });

  function agentOf() {
    return story.agents[NODE] ?? assert.fail();
  }

  /** The probes to the node that count, and who made them. */
  function probersOf(): Map<string, string> {
    const said = agentOf()
      .log()
      .split('\n')
      .filter((line) => line.includes(COUNT));
    return new Map(said.flatMap((line) => Object.entries<string>(JSON.parse(line).probers)));
  }

  function failing({ failingNodes = [] }: PolicyStatus) {
    return failingNodes.find(({ node }) => node === NODE);
  }

  async function rolledBack(policy: string, probe: string): Promise<void> {
    await agentOf().says(BACK);
    const rule = `rule ${policy}/close denies it`;
    await story.statusIs(policy, (status) => {
      const { reason = '' } = failing(status) ?? {};
      return (
        status.phase === 'RolledBack' && reason.includes(`probe ${probe} failed`) && reason.includes(rule)
      );
    });
  }

  it('has its probes made by another agent, and by the controller', () => {
    const probers = probersOf();
    assert.ok(['cp-1', 'worker-2'].includes(probers.get('ssh') ?? ''), JSON.stringify([...probers]));
    assert.equal(probers.get('web'), 'nodewall-controller');
  });

  it('takes back what closes a port to another node, and says so everywhere', async () => {
    await story.applied(closed('cut', 22));
    await story.sees('other0', 'worker-2', 22, 'closed');
    await rolledBack('cut', 'ssh');
    await story.sees('other0', NODE, 22, 'open');
    await until('an Event', async () => {
      const { items } = await story.cluster.get<{ items: EventObject[] }>('events', '--namespace=default');
      return items.some(
        ({ reason, involvedObject }) => reason === 'RolledBack' && involvedObject.name === 'cut',
      );
    });
    const { namespace } = story.machine(NODE);
    const program = `fetch('http://${METRICS}/metrics').then((answer) => answer.text()).then(console.log)`;
    const { stdout } = await namespace.run([process.execPath, '-e', program]);
    assert.match(stdout, /^nodewall_agent_rollbacks_total\{.*probe="ssh".*\} 1$/m);
    const records = await readFile(join(story.cluster.folder, `${NODE}.state`, 'records.jsonl'), 'utf8');
    const record = JSON.parse(records.trim().split('\n').at(-1) ?? '');
    assert.deepEqual(
      [record.event, record.probe, record.policy, record.rule],
      ['rolledBack', 'ssh', 'cut', 'close'],
    );
  });

  it('tries it again by the annotation, and by hand, until somebody confirms it', async () => {
    const name = 'clusternetworkpolicies.nodewall.io/cut';
    await story.kubectl('annotate', '--overwrite', name, 'nodewall.io/retry=1');
    await rolledBack('cut', 'ssh');
    const agent = agentOf();
    // It is taken back after a second: a slow machine may need more than one try.
    await until('a retried change is confirmed in time', async () => {
      await succeeds(agent.run('retry', 'cut'));
      return (await agent.run('confirm')).stdout.includes('Confirmed: ');
    });
    await story.statusIs('cut', { phase: 'Realized', currentNodesRealized: 2 });
    await story.sees('other0', NODE, 22, 'closed');
    await story.cluster.remove('ncnp', 'cut');
    await agent.says('the rules are confirmed');
    await story.sees('other0', NODE, 22, 'open');
    await agent.says(COUNT);
  });

  it('takes back what closes a port to the controller', async () => {
    await story.applied(closed('web', 443));
    await rolledBack('web', 'web');
    await story.sees('other0', NODE, 443, 'open');
  });

  it('takes back what drops echo requests of another node', async () => {
    const close = { name: 'close', action: 'Drop', protocols: [{ icmpv6: { icmpType: 128 } }] };
    await story.applied(closed('quiet', 0, { ingress: [close] }));
    await rolledBack('quiet', 'ping');
  });

  it('does not take a change back because nobody can make its probes', async () => {
    for (const other of ['cp-1', 'worker-2']) await story.agents[other]?.end('SIGKILL');
    await story.applied(closed('other', 8080));
    await agentOf().says('nobody could make these probes to the node');
    await agentOf().says('the rules are confirmed');
    await story.sees('other0', NODE, 8080, 'closed');
  });
});
