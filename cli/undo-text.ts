import type { RolloutState } from '../apis/rollout.ts';
import { managerChanges, type ObjectMetadata } from '../controller/kubeapi/managed-fields.ts';
import { compareText } from '../lib/sharing/order.ts';
import { table } from './output.ts';
import { fieldText } from './record-text.ts';
import { type PolicyWithRollout, recordOnly, toShown } from './rollout-text.ts';

export interface ChangedPolicy extends PolicyWithRollout {
  readonly metadata: PolicyWithRollout['metadata'] & ObjectMetadata;
  readonly spec?: PolicyWithRollout['spec'] & { readonly mode?: string };
}

/** The way back from the present version of a policy. */
export interface WayBack {
  readonly policy: string;
  readonly group: string | null;
  /** When its spec was last changed (ISO 8601), and by which program; null: nobody knows. */
  readonly changed: string | null;
  readonly by: string | null;
  /** The state of its rollout; null: it has none. */
  readonly rollout: RolloutState | null;
  /** For people: how far the rollout is. */
  readonly progress: string;
  /**
   * undo: its last completed version comes back; record-only: there is no earlier version, it can
   * stop to enforce; promote: it was undone; none: it enforces nothing.
   */
  readonly way: 'undo' | 'record-only' | 'promote' | 'none';
  /** With `undo`: the generation that comes back; 0: none, the policy was new. */
  readonly generation: number | null;
  /** The line for a shell; null: none. */
  readonly command: string | null;
}

/** Policies without an earlier version that are named, of those changed last. */
const MOST_OTHERS = 10;

/**
 * Those that can be undone first, then by the time of the change, newest first.
 *
 * @param program as its users call it
 */
export function waysBack(policies: readonly ChangedPolicy[], program: string): WayBack[] {
  return policies
    .map((policy) => wayBack(policy, program))
    .sort(
      (a, b) =>
        Number(b.way === 'undo') - Number(a.way === 'undo') ||
        compareText(b.changed ?? '', a.changed ?? '') ||
        compareText(a.policy, b.policy),
    );
}

function wayBack(policy: ChangedPolicy, program: string): WayBack {
  const { name } = policy.metadata;
  const quoted = fieldText(name);
  const shown = toShown(policy);
  const [change] = managerChanges(policy.metadata).filter(({ fields }) =>
    fields.some((field) => field.startsWith('spec.')),
  );
  const found = {
    policy: name,
    group: shown?.group ?? null,
    changed: change?.time ?? null,
    by: change?.manager ?? null,
    rollout: shown?.state ?? null,
    progress: shown?.progress ?? '',
  };
  if (shown?.state === 'Progressing' || shown?.state === 'Paused')
    return { ...found, way: 'undo', generation: shown.from, command: `${program} undo ${quoted}` };
  if (shown?.state === 'Undone')
    return { ...found, way: 'promote', generation: null, command: `${program} rollout promote ${quoted}` };
  if (policy.spec?.mode === 'Audit') return { ...found, way: 'none', generation: null, command: null };
  return { ...found, way: 'record-only', generation: null, command: recordOnly(quoted) };
}

/** The ways back that there are, and the lines for a shell. */
export function waysBackText(ways: readonly WayBack[], program: string): string {
  if (ways.length === 0) return 'Nothing to undo: the cluster has no ClusterNetworkPolicy.\n';
  const undoable = ways.filter(({ way }) => way === 'undo');
  const others = ways.filter(({ way }) => way !== 'undo');
  const rows = [...undoable, ...others.slice(0, MOST_OTHERS)].map((one) => [
    fieldText(one.policy),
    one.group === null ? '-' : fieldText(one.group),
    one.changed === null ? '-' : fieldText(one.changed),
    one.by === null ? '-' : fieldText(one.by),
    one.rollout === null ? '-' : fieldText(one.rollout),
    wayText(one),
  ]);
  const left = others.length - MOST_OTHERS;
  const more = left > 0 ? `${left} more: -o json\n` : '';
  const alone = others.some(({ way }) => way === 'record-only')
    ? `Where no earlier version is stored, apply it from where your manifests are, or let the policy record only:\n  ${recordOnly('POLICY')}\n`
    : '';
  const header = ['policy', 'group', 'changed', 'by program', 'rollout', 'way back'];
  return `${table(header, rows)}${more}\n${alone}${REST(program)}`;
}

function wayText({ way, command, generation }: WayBack): string {
  switch (way) {
    case 'undo':
      return `${command} (${generation === 0 ? 'the policy is new: no rules of it' : `generation ${generation}`})`;
    case 'promote':
      return `is undone; ${command} ends that`;
    case 'none':
      return 'records only, enforces nothing';
    case 'record-only':
      return 'no earlier version is stored';
    default:
      return way satisfies never;
  }
}

const REST = (program: string): string =>
  `What else was changed: ${program} changes. All rules of one node off: nodewall off, on the node.\n`;
