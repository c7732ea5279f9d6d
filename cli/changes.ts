import { timeOption } from '../agent/record/record-filter.ts';
import type { PolicyStatus } from '../apis/policy-status.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError, orNull } from '../controller/kubeapi/kube-error.ts';
import {
  type ManagerChange,
  managerChanges,
  type ObjectMetadata,
} from '../controller/kubeapi/managed-fields.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { itemsAt, withCluster } from './cluster-api.ts';
import { errorText, json, print, table } from './output.ts';
import { fieldText, oneLine } from './record-text.ts';

interface ChangesOptions {
  readonly kubeconfig?: string;
  /** 2h ago, or a time. */
  readonly since?: string;
  readonly output: 'table' | 'json';
}

/** A change of an object, and what became of it. */
interface Changed extends ManagerChange {
  /** KIND/NAME, or KIND/NAMESPACE/NAME. */
  readonly object: string;
  /** As in `Realized, 2 of 2 nodes`; null: the object has no status about nodes. */
  readonly inForce: string | null;
}

interface Listed {
  readonly metadata: ObjectMetadata;
  readonly status?: Partial<PolicyStatus>;
}

const GROUP = '/apis/nodewall.io/v1alpha1';
const KINDS: ReadonlyMap<string, string> = new Map([
  ['ClusterNetworkPolicy', 'clusternetworkpolicies'],
  ['Tier', 'tiers'],
  ['ClusterGroup', 'clustergroups'],
  ['Guardrail', 'guardrails'],
  ['EgressGateway', 'egressgateways'],
  ['EgressPolicy', 'egresspolicies'],
  ['ClusterEgressPolicy', 'clusteregresspolicies'],
]);
/** The feature gate. */
const SETTINGS = '/api/v1/namespaces/nodewall-system/configmaps/nodewall-config';
/** Fields of a change that are named in a line. */
const MOST_FIELDS = 4;

/**
 * `nodewall changes`: what was changed in a cluster, when, and by which program, newest first. Exit
 * status 3 if no kind of object can be read.
 */
export async function changesCommand({ kubeconfig, since, output }: ChangesOptions): Promise<ExitStatus> {
  const from = since === undefined ? Number.NEGATIVE_INFINITY : timeOption('--since', since, Date.now());
  return await withCluster(kubeconfig, async (request) => {
    const all = await Promise.all([
      ...[...KINDS].map(([kind, resource]) => readable(kind, () => objectsOf(request, kind, resource))),
      readable('ConfigMap nodewall-config', () => settingsOf(request)),
    ]);
    if (all.every((one) => one === null))
      throw new CommandError(EXIT.refused, 'nothing can be read: see above');
    const changes = all
      .flatMap((one) => one ?? [])
      .filter(({ time }) => Date.parse(time) >= from)
      .sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    await print(output === 'json' ? json(changes) : toText(changes, since));
    return EXIT.done;
  });
}

/** Null: it cannot be read, which is said. */
async function readable<T>(what: string, read: () => Promise<readonly T[]>): Promise<readonly T[] | null> {
  try {
    return await read();
  } catch (error) {
    if (!isKubeError(error, 'Forbidden', 'NotFound')) throw error;
    process.stderr.write(errorText(`${what}: ${error.message}`));
    return null;
  }
}

async function objectsOf(request: KubeApi, kind: string, resource: string): Promise<Changed[]> {
  const items = await itemsAt<Listed>(request, `${GROUP}/${resource}`);
  return items.flatMap((one) => ofObject(kind, one));
}

async function settingsOf(request: KubeApi): Promise<Changed[]> {
  const settings = await orNull(request<Listed>({ method: 'GET', path: SETTINGS }));
  return settings === null ? [] : ofObject('ConfigMap', settings);
}

function ofObject(kind: string, { metadata, status }: Listed): Changed[] {
  const object = [kind, metadata.namespace, metadata.name].filter((one) => one !== undefined).join('/');
  const inForce = kind === 'ClusterNetworkPolicy' ? inForceText(metadata, status ?? {}) : null;
  return managerChanges(metadata).map((change) => ({ ...change, object, inForce }));
}

function inForceText({ generation }: ObjectMetadata, status: Partial<PolicyStatus>): string {
  const { phase, currentNodesRealized, desiredNodesRealized, observedGeneration } = status;
  if (phase === undefined || observedGeneration !== generation) return 'not known yet';
  return `${phase}, ${Number(currentNodesRealized)} of ${Number(desiredNodesRealized)} nodes`;
}

function toText(changes: readonly Changed[], since: string | undefined): string {
  if (changes.length === 0)
    return since === undefined ? 'There is nothing to change.\n' : `No change since ${since}.\n`;
  const rows = changes.map(({ time, object, manager, operation, isNew, fields, inForce }) => [
    fieldText(time),
    fieldText(object),
    operation === 'Delete'
      ? 'is being deleted'
      : `${fieldText(manager)} (${isNew ? 'new' : fieldText(operation)})`,
    fieldsText(fields),
    oneLine(inForce ?? ''),
  ]);
  const more =
    'The last change of each program; users and earlier changes are in the audit log of the API server.\n';
  return `${table(['changed', 'object', 'by program', 'fields', 'in force'], rows)}\n${more}`;
}

function fieldsText(fields: readonly string[]): string {
  const left = fields.length - MOST_FIELDS;
  const named = fields.slice(0, MOST_FIELDS).map(fieldText).join(', ');
  return left > 0 ? `${named} and ${left} more` : named;
}
