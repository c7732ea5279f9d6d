/** Statuses of policies of crd.antrea.io, where a controller of Antrea runs and where none does. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PolicyStatus } from '../../../apis/policy-status.ts';
import type { AntreaStatus } from '../../../controller/status/antrea-status.ts';
import { removeAll } from '../../cluster/admin-api.ts';
import { until } from '../../kernel/until.ts';
import { simulated } from '../labs.ts';
import type { RolloutBed } from '../rollout-bed.ts';

const LIMIT = 120_000;
/** A CustomResourceDefinition as Antrea has it, but for the spec. */
const crd = (kind: string, plural: string, more: string): string => `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${plural}.crd.antrea.io}
spec:
  group: crd.antrea.io
  scope: Cluster
  names: {kind: ${kind}, plural: ${plural}}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true${more}
`;
const STATUS = `, properties: {
        spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
        status: {type: object, properties: {
          phase: {type: string}, observedGeneration: {type: integer},
          currentNodesRealized: {type: integer}, desiredNodesRealized: {type: integer},
          conditions: {type: array, items: {type: object, properties: {
            type: {type: string}, status: {type: string}, lastTransitionTime: {type: string},
            reason: {type: string}, message: {type: string}}}}}}}}}
      subresources: {status: {}}`;
const POLICIES = crd('ClusterNetworkPolicy', 'clusternetworkpolicies', STATUS);
const INFOS = crd('AntreaControllerInfo', 'antreacontrollerinfos', '}}');
const policy = (name: string, port: number, api = 'crd.antrea.io/v1beta1') => `
apiVersion: ${api}
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  priority: 5
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: drop, action: Drop, ports: [{protocol: TCP, port: ${port}}]}]
`;
const DEPLOYMENT = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: antrea-controller, namespace: kube-system}
spec:
  selector: {matchLabels: {component: antrea-controller}}
  template: {metadata: {labels: {component: antrea-controller}}, spec: {containers: [{name: c, image: i}]}}
`;

/** Of one controller, and agents that run; at its end another one that leaves Antrea alone. */
describe('the statuses of policies of crd.antrea.io, on a real API server', function () {
  this.timeout(2 * LIMIT);
  const begun = simulated.use();
  let bed: RolloutBed;
  before(async () => {
    bed = begun();
    await bed.cluster.apply(POLICIES);
    await bed.cluster.established();
    await bed.leader();
  });
  after(async () => {
    await removeAll(bed.cluster, 'clusternetworkpolicies.crd.antrea.io', 'ncnp');
    const isFree = async (): Promise<boolean> => bed.nodes.every((node) => node.generation('ssh') === 0);
    await until('no node has a policy', isFree, { limit: LIMIT, detail: bed.logs });
  });

  async function status(name = 'ssh'): Promise<AntreaStatus | undefined> {
    const kind = 'clusternetworkpolicies.crd.antrea.io';
    return (await bed.cluster.get<{ status?: AntreaStatus }>(kind, name)).status;
  }

  async function untilStatus(what: string, wanted: (status: AntreaStatus) => boolean): Promise<void> {
    let last: AntreaStatus | undefined;
    const isWanted = async (): Promise<boolean> => {
      last = await status();
      return last !== undefined && wanted(last);
    };
    const detail = (): string => `${JSON.stringify(last)}\n${bed.logs()}`;
    await until(what, isWanted, { limit: LIMIT, detail });
  }

  /** Waits for the next line of the leader with this message. */
  async function untilSaid(message: string, change: () => Promise<unknown>): Promise<void> {
    const { log } = await bed.leader();
    const before = log.length;
    await change();
    await until(message, async () => log.slice(before).some((line) => line.includes(message)), {
      limit: LIMIT,
      detail: bed.logs,
    });
  }

  /**
   * A new version that the nodes have, and another policy whose status was written after that.
   */
  async function isSilentAbout(port: number): Promise<void> {
    const before = await status();
    await bed.cluster.apply(policy('ssh', port));
    const { metadata } = await bed.cluster.get<{ metadata: { generation: number } }>(
      'clusternetworkpolicies.crd.antrea.io',
      'ssh',
    );
    assert.equal(before?.observedGeneration, metadata.generation - 1);
    const haveIt = async (): Promise<boolean> =>
      bed.nodes.every((node) => node.generation('ssh') === metadata.generation);
    await until('the nodes have it', haveIt, { limit: LIMIT, detail: bed.logs });
    const name = `own-${port}`;
    await bed.cluster.apply(policy(name, port, 'nodewall.io/v1alpha1'));
    await until(
      'the status of another policy is written',
      async () => {
        const own = await bed.cluster.get<{ status?: PolicyStatus }>('ncnp', name);
        return own.status?.phase === 'Realized';
      },
      { limit: LIMIT, detail: bed.logs },
    );
    assert.deepEqual(await status(), before);
  }

  it('are written where no controller of Antrea runs, with the fields that Antrea has', async () => {
    await bed.cluster.apply(policy('ssh', 22));
    await untilStatus('all nodes enforce it', ({ phase }) => phase === 'Realized');
    const { conditions = [], ...counts } = (await status()) ?? {};
    const nodes = { currentNodesRealized: bed.nodes.length, desiredNodesRealized: bed.nodes.length };
    assert.deepEqual(counts, { phase: 'Realized', observedGeneration: 1, ...nodes });
    assert.deepEqual(
      conditions.map(({ type, status: value }) => [type, value]),
      [['Realizable', 'True']],
    );
  });

  it('are left alone as soon as its Deployment is there, and written again when that is gone', async () => {
    await untilSaid('a controller of Antrea runs', () => bed.cluster.apply(DEPLOYMENT));
    await isSilentAbout(23);
    const name = ['--namespace=kube-system', 'deployment', 'antrea-controller'];
    await bed.cluster.kubectl(['delete', ...name]);
    await untilStatus('it follows', ({ observedGeneration: at, phase }) => at === 2 && phase === 'Realized');
  });

  it('are left alone while its heartbeats come, wherever it is installed', async () => {
    await bed.cluster.apply(INFOS);
    await bed.cluster.established();
    await untilSaid('a controller of Antrea runs', () =>
      bed.cluster.apply(`
apiVersion: crd.antrea.io/v1beta1
kind: AntreaControllerInfo
metadata: {name: antrea-controller}
controllerConditions: [{type: ControllerHealthy, status: "True", lastHeartbeatTime: "${new Date().toISOString()}"}]
`),
    );
    await isSilentAbout(24);
    await bed.cluster.kubectl(['delete', 'antreacontrollerinfos', 'antrea-controller']);
    await untilStatus('it follows', ({ observedGeneration: at, phase }) => at === 3 && phase === 'Realized');
  });

  it('are left alone by a controller whose configuration says so', async () => {
    await bed.end(0, 'SIGTERM');
    await writeFile(join(bed.cluster.folder, 'controller.yaml'), 'antreaStatus: false');
    await bed.startController(0);
    await bed.leader();
    await isSilentAbout(25);
  });
});
