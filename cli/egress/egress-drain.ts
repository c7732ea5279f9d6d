import { setTimeout as pause } from 'node:timers/promises';
import { DRAIN_ANNOTATION } from '../../apis/objects.ts';
import type { KubeApi } from '../../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { errorCode } from '../../lib/sharing/error.ts';
import { clusterConfig, itemsAt } from '../cluster-api.ts';
import { loadConfig } from '../load.ts';
import { json, print } from '../output.ts';

interface EgressDrainOptions {
  readonly undo: boolean;
  readonly wait: boolean;
  readonly timeout: number;
  readonly kubeconfig?: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/** The part of a gateway's status that says whom a node serves. */
interface WrittenStatus {
  /** `node`: the owner; '' if the slot has none. */
  readonly slots?: readonly { readonly name: string; readonly node: string }[];
  readonly nodes?: readonly { readonly name: string; readonly ready: boolean }[];
}

/** Milliseconds between two looks at the statuses. */
const LOOK_EVERY = 100;
const GATEWAYS = '/apis/nodewall.io/v1alpha1/egressgateways';

/**
 * `nodewall egress drain`: has a gateway node give up all its slots, and waits until other nodes
 * own them. Exit status 1 if some are left at the time limit.
 */
export async function egressDrain(node: string, options: EgressDrainOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const { kubeApi } = await import('../../controller/kubeapi/kube-api.ts');
  const client = kubeApi(await clusterConfig(options.kubeconfig));
  try {
    const started = performance.now();
    const before = options.undo ? [] : await slotsOf(client.request, node);
    await annotate(client.request, node, options.undo);
    const isWaiting = !options.undo && options.wait;
    const left = isWaiting ? await untilMoved(client.request, node, options.timeout) : before;
    const milliseconds = Math.round(performance.now() - started);
    const result = { node, drain: !options.undo, slots: before, left, milliseconds };
    await print(options.output === 'json' ? json(result) : resultText(result, options));
    return isWaiting && left.length > 0 ? EXIT.invalid : EXIT.done;
  } finally {
    client.close();
  }
}

/**
 * `GATEWAY/SLOT` of the slots that a node owns by the statuses, and the `GATEWAY` of those that
 * send it new connections without a slot (choice Spread).
 */
async function slotsOf(request: KubeApi, node: string): Promise<readonly string[]> {
  interface Listed {
    readonly metadata: { readonly name: string };
    readonly status?: WrittenStatus;
  }
  const items = await asCommand(() => itemsAt<Listed>(request, GATEWAYS), {
    404: 'the cluster has no EgressGateways: install the CustomResourceDefinitions of nodewall',
  });
  return items.flatMap(({ metadata, status }) => servedBy(node, metadata.name, status ?? {}));
}

function servedBy(node: string, gateway: string, { slots = [], nodes = [] }: WrittenStatus): string[] {
  const own = slots.filter((slot) => slot.node === node).map(({ name }) => `${gateway}/${name}`);
  const isUsed = slots.length === 0 && nodes.some(({ name, ready }) => name === node && ready);
  return isUsed ? [gateway] : own;
}

async function annotate(request: KubeApi, node: string, isUndo: boolean): Promise<void> {
  const body = { metadata: { annotations: { [DRAIN_ANNOTATION]: isUndo ? null : 'true' } } };
  const path = `/api/v1/nodes/${encodeURIComponent(node)}`;
  await asCommand(() => request({ method: 'PATCH', path, body }), { 404: `there is no Node ${node}` });
}

async function asCommand<T>(call: () => Promise<T>, messages: Readonly<Record<number, string>>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const message = messages[Number(errorCode(error))];
    if (message !== undefined) throw new CommandError(EXIT.invalid, message, { cause: error });
    throw new CommandError(EXIT.refused, (error as Error).message, { cause: error });
  }
}

/** Returns the slots that are left. */
async function untilMoved(request: KubeApi, node: string, seconds: number): Promise<readonly string[]> {
  const until = performance.now() + seconds * 1000;
  let said = '';
  for (;;) {
    const left = await slotsOf(request, node);
    const text = left.join(', ');
    if (left.length > 0 && text !== said) process.stderr.write(`${node} still serves ${text}\n`);
    said = text;
    if (left.length === 0 || performance.now() > until) return left;
    await pause(LOOK_EVERY);
  }
}

interface Result {
  readonly node: string;
  readonly slots: readonly string[];
  readonly left: readonly string[];
  readonly milliseconds: number;
}

function resultText({ node, slots, left, milliseconds }: Result, { undo, wait }: EgressDrainOptions): string {
  if (undo) return `${node} can own slots again; those that it had stay where they are.\n`;
  if (!wait) return `${node} is to give up: ${slots.join(', ') || 'nothing'}.\n`;
  if (left.length === 0)
    return `${node} owns no slot; ${slots.join(', ') || 'none'} moved within ${milliseconds} ms.\n`;
  return `${node} still serves ${left.join(', ')} after ${milliseconds} ms: is another candidate ready? nodewall egress status shows it. The node stays marked; --undo ends that.\n`;
}
