/** The alerts at a real Prometheus: the real thing is broken, and repaired. */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { stringify } from 'yaml';
import { ALERTS } from '../../build/manifests/monitoring/rules.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { type AlertsBed, startPrometheus } from './alerts-bed.ts';
import { withAllRights, withoutRight } from './controller-process.ts';
import { AGENT_CONFIG } from './story-agents.ts';
import { closed, type Story, startStory } from './story-bed.ts';

const NODE = 'worker-1';
const GUARDED = 'worker-2';
/** Minutes are seconds, hours are minutes; what needs several reports of a node has more. */
const SPEEDS = {
  default: { ranges: 60, offsets: 60 },
  // A status that cannot be written is tried again after up to ten seconds.
  StatusWritesFailing: { ranges: 10, offsets: 1 },
  // A watch that fails is tried again after up to half a minute.
  WatchFailing: { ranges: 6, offsets: 1 },
  // Nodes report once a minute.
  DropsRose: { ranges: 12, offsets: 864 },
};
/** Controllers know an interface group that agents do not. */
const CONTROLLER = {
  ...AGENT_CONFIG,
  interfaceGroups: { ...AGENT_CONFIG.interfaceGroups, vms: { group: 20, match: [] } },
};
const GUARD = {
  enabled: true,
  window: 1,
  failAfter: 1,
  probes: [{ name: 'ssh', from: 'peer', tcp: 'node:22' }],
};

interface Breakage {
  readonly alert: string;
  /** Labels that the alert must have. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Milliseconds until it fires, and until it clears; default: two minutes. */
  readonly limit?: number;
  readonly breaks: (story: Story) => Promise<unknown>;
  readonly repairs: (story: Story) => Promise<unknown>;
}

/** Alerts that only promtool proves: nothing here breaks that way. */
const BY_PROMTOOL_ALONE: Readonly<Record<string, string>> = {
  TwoLeaders: 'the Lease prevents it',
  InternalErrors: 'no object is known on which the compiler fails',
  CertificateExpires: 'it is renewed a month before',
  ApiAbsent: 'no kube-proxy gives the Service an address here',
  GateUnset: 'test/e2e/story-accidents.test.ts breaks that, with new controllers',
  EgressNodesNotReady: 'the feature gate EgressGateway is off here',
  NodeNotUpToDate: 'an agent that reports applies what it has, or names what fails',
};

const remove = (story: Story, ...names: string[]) => story.kubectl('delete', ...names, '--wait=false');
const agentOf = (story: Story, name = NODE) => story.agents[name] ?? assert.fail();

const BREAKAGES: readonly Breakage[] = [
  {
    alert: 'NodeOff',
    labels: { node: NODE },
    breaks: (story) => agentOf(story).run('off'),
    repairs: (story) => agentOf(story).run('on'),
  },
  {
    alert: 'NodeWithoutAgent',
    labels: { node: 'ghost' },
    breaks: (story) => story.applied({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'ghost' } }),
    repairs: (story) => remove(story, 'node', 'ghost'),
  },
  {
    alert: 'DriftRepeated',
    labels: { node: NODE },
    limit: 200_000,
    async breaks(story) {
      const { namespace } = story.machine(NODE);
      await until('there are rules', async () => (await agentOf(story).rules()) !== '');
      const rules = await agentOf(story).rules();
      for (let times = 0; times < 5; times++) {
        await namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
        await agentOf(story).says('a third party changed the rules in force');
        // A table that is deleted during the repair comes back with it, as part of the same drift.
        await until('all rules are back', async () => (await agentOf(story).rules()) === rules);
      }
    },
    repairs: async () => {},
  },
  {
    alert: 'PolicyFailing',
    labels: { node: NODE },
    breaks: (story) =>
      story.applied(
        closed('failing', 8080, {
          ingress: [{ name: 'vms', action: 'Drop', from: [{ interfaceGroup: 'vms' }] }],
        }),
      ),
    repairs: (story) => remove(story, 'ncnp/failing'),
  },
  {
    alert: 'ManyNodesBehind',
    breaks: (story) =>
      story.applied(
        closed('failing', 8080, {
          ingress: [{ name: 'vms', action: 'Drop', from: [{ interfaceGroup: 'vms' }] }],
        }),
      ),
    repairs: (story) => remove(story, 'ncnp/failing'),
  },
  {
    alert: 'PolicyRolledBack',
    labels: { node: GUARDED },
    breaks: (story) => story.applied(closed('cut', 22)),
    repairs: (story) => remove(story, 'ncnp/cut'),
  },
  {
    alert: 'GuardrailBroken',
    async breaks(story) {
      const spec = {
        nodeSelector: {},
        mustAllow: [{ name: 'web', direction: 'ingress', ports: [{ port: 443 }] }],
      };
      await story.applied({
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'Guardrail',
        metadata: { name: 'web' },
        spec,
      });
      const appliedTo = [{ nodeSelector: { matchLabels: { role: 'db' } } }];
      await story.applied(closed('db', 443, { appliedTo }));
      await story.kubectl('label', 'node', NODE, 'role=db', '--overwrite');
    },
    async repairs(story) {
      await story.kubectl('label', 'node', NODE, 'role=worker', '--overwrite');
      await remove(story, 'ncnp/db', 'ngr/web');
    },
  },
  {
    alert: 'RolloutPaused',
    async breaks(story) {
      const staged = (port: number) =>
        closed('staged', port, { rollout: { steps: [1, '100%'], pause: 3600 } });
      await story.applied(staged(8080));
      await story.kubectl('annotate', 'ncnp', 'staged', 'nodewall.io/rollout=pause', '--overwrite');
    },
    repairs: (story) => remove(story, 'ncnp/staged'),
  },
  {
    alert: 'DropsRose',
    labels: { policy: 'closed', rule: 'close' },
    limit: 400_000,
    breaks: (story) => story.withoutLeaks(NODE, 80, () => pause(100_000)),
    repairs: async () => {},
  },
  {
    alert: 'RecordsLost',
    labels: { node: NODE },
    async breaks(story) {
      const config = join(story.cluster.folder, 'full.yaml');
      await writeFile(
        config,
        stringify({ ...AGENT_CONFIG, guard: { enabled: false }, log: { file: '/dev/full' } }),
      );
      await agentOf(story).end('SIGTERM');
      agentOf(story).start('--config', config);
      const ingress = [{ name: 'close', action: 'Drop', enableLogging: true, ports: [tcp(443)] }];
      await story.applied(closed('logged', 443, { ingress }));
      await story.sees('other0', NODE, 443, 'closed');
    },
    async repairs(story) {
      await agentOf(story).end('SIGTERM');
      agentOf(story).start();
      await remove(story, 'ncnp/logged');
    },
  },
  {
    alert: 'StatusWritesFailing',
    limit: 300_000,
    async breaks(story) {
      await withoutRight(story.cluster, 'clusternetworkpolicies/status');
      await story.applied(...Array.from({ length: 10 }, (_, i) => closed(`many-${i}`, 7000 + i)));
    },
    async repairs(story) {
      await withAllRights(story.cluster);
      await remove(story, ...Array.from({ length: 10 }, (_, i) => `ncnp/many-${i}`));
    },
  },
  {
    alert: 'InvalidObjects',
    async breaks(story) {
      await remove(story, 'validatingwebhookconfiguration/nodewall', 'mutatingwebhookconfiguration/nodewall');
      await story.applied({
        ...policy('invalid', {}),
        spec: { tier: 'nowhere', priority: 5, appliedTo: [{ nodeSelector: {} }], ingress: [] },
      });
    },
    repairs: (story) => remove(story, 'ncnp/invalid'),
  },
  {
    alert: 'GateOff',
    breaks: (story) => story.setGate(false),
    repairs: (story) => story.setGate(true),
  },
  {
    alert: 'NodeSilent',
    labels: { node: NODE },
    limit: 420_000,
    breaks: (story) => agentOf(story).end('SIGKILL'),
    repairs: async (story) => agentOf(story).start(),
  },
  {
    alert: 'WatchFailing',
    limit: 400_000,
    // Watches that are open go on: the next list shows the missing right.
    breaks: (story) => withoutRight(story.cluster, 'pods'),
    repairs: (story) => withAllRights(story.cluster),
  },
  {
    alert: 'NoLeader',
    async breaks(story) {
      await story.routed();
      const spec = {
        holderIdentity: 'somebody',
        leaseDurationSeconds: 3600,
        renewTime: new Date().toISOString().replace('Z', '000Z'),
      };
      await story.kubectl(
        'patch',
        'lease',
        'nodewall-controller',
        '--namespace=nodewall-system',
        '--type=merge',
        '-p',
        JSON.stringify({ spec }),
      );
    },
    repairs: (story) => remove(story, 'lease/nodewall-controller', '--namespace=nodewall-system'),
  },
  {
    alert: 'ControllersAbsent',
    async breaks(story) {
      for (const replica of story.replicas) if (replica.isRunning()) await replica.end('SIGTERM');
    },
    repairs: (story) => story.addReplica(),
  },
];

kernelSuite('alerts at a real Prometheus', function () {
  this.timeout(900_000);
  let story: Story;
  let bed: AlertsBed;
  let folder: string;
  before(async function () {
    this.timeout(1_800_000);
    folder = await mkdtemp(join(tmpdir(), 'nodewall-alerts-'));
    const config = join(folder, 'controller.yaml');
    await writeFile(config, stringify({ ...CONTROLLER, guard: GUARD }));
    story = await startStory({
      replicas: 1,
      controllerOptions: ['--config', config, '--relist-period', '5'],
    });
    const guarded = join(folder, 'guarded.yaml');
    await writeFile(guarded, stringify({ ...AGENT_CONFIG, names: { servers: ['127.0.0.1'] }, guard: GUARD }));
    await agentOf(story, GUARDED).end('SIGTERM');
    await story.sees('other0', GUARDED, 22, 'open');
    agentOf(story, GUARDED).start('--config', guarded);
    await story.applied(closed('closed', 80));
    bed = await startPrometheus(story, SPEEDS);
  });
  after(async () => {
    await bed?.close();
    await story?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('are each made to fire here, or say why not', () => {
    const tried = [...BREAKAGES.map(({ alert }) => alert), ...Object.keys(BY_PROMTOOL_ALONE)];
    assert.deepEqual(tried.sort(), ALERTS.map(({ name }) => name).sort());
  });

  for (const { alert, labels, limit, breaks, repairs } of BREAKAGES) {
    it(`${alert} fires, and clears`, async () => {
      await bed.clears(alert, limit);
      try {
        await breaks(story);
        await bed.fires(alert, labels, limit);
      } finally {
        await repairs(story);
      }
      await bed.clears(alert, limit);
    });
  }
});
