import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../apis/config.ts';
import {
  MOST_NAMED,
  MOST_PREVIEW_ROWS,
  type Preview,
  type PreviewRow,
} from '../../apis/console-documents.ts';
import type { NodeGroup, Row } from '../../apis/difference/row.ts';
import type { ClusterObject, ClusterObjects, Problem } from '../../apis/objects.ts';
import { displayName, identityOf } from '../../apis/validate/metadata.ts';
import { untilThen } from '../../apis/validate/nearest.ts';
import { validateOptions } from '../../apis/validate/object.ts';
import { clusterDifference } from '../difference/cluster-difference.ts';
import { cells, Names } from '../difference/row-text.ts';
import {
  ChangeOverrunError,
  type ImpactJudge,
  type JudgedChange,
  withoutGuardrails,
} from '../impact/impact.ts';
import { appliedObjects } from '../watch/applied-objects.ts';
import { type FileContent, LIST_NAMES } from '../watch/content.ts';
import { checkBytes } from '../watch/files.ts';
import { NO_CACHE, parseManifest } from '../watch/read-file.ts';
import type { LoadProblem } from '../watch/source.ts';

/** A preview without what needs the time of day, or nodes. */
export interface PreviewResult {
  readonly preview: Omit<Preview, 'time' | 'impact'>;
  /** The rows of what would be denied, for each group of nodes. */
  readonly denied: readonly DeniedRows[];
}

export interface DeniedRows {
  readonly nodes: readonly string[];
  readonly rows: readonly Row[];
}

interface PreviewOptions {
  readonly config: Config;
  readonly judge: Pick<ImpactJudge, 'judgeNext'>;
  /** Called often; may throw ChangeOverrunError, which leaves the rest out. */
  readonly checkpoint: () => void;
}

/** Stands for the pasted text in problems. */
const FILE = 'preview.yaml';
const NOTHING = { severity: 'error', file: FILE, line: 0, kind: '', name: '', path: '' } as const;
const PREVIEWED = [
  'policies',
  'groups',
  'tiers',
  'guardrails',
] as const satisfies readonly (keyof ClusterObjects)[];
const LATE =
  'the difference takes too long to compute here; nodewall diff --against-cluster has the time for it';

/**
 * The effect of applying these objects to the cluster. Throws ChangeOverrunError if it takes too
 * long.
 */
export function previewOf(yaml: string, objects: ClusterObjects, options: PreviewOptions): PreviewResult {
  const { config, judge, checkpoint } = options;
  const validation = validateOptions(config);
  const { content } = parseManifest(FILE, checkBytes(Buffer.from(yaml)), NO_CACHE, validation);
  const applied = appliedObjects(objects, { contents: [content], removed: [] }, validation);
  const problems = [...otherKinds(content), ...applied.problems.map(toProblem)];
  const given = PREVIEWED.flatMap((list): readonly ClusterObject[] => content[list].objects);
  if (given.length === 0 && problems.every(({ severity }) => severity !== 'error'))
    problems.push({ ...NOTHING, message: 'there is no object in it' });
  const none: PreviewResult['preview'] = {
    problems,
    objects: [],
    brokenGuardrail: null,
    groups: [],
    leftOut: 0,
    noDifference: null,
  };
  if (problems.some(({ severity }) => severity === 'error')) return { preview: none, denied: [] };
  const judged = judge.judgeNext(objects, applied.objects, checkpoint);
  const { broken } = judged.judgement;
  const preview = {
    ...none,
    objects: given.map((one) => toChange(one, objects)),
    brokenGuardrail: broken && { guardrail: broken.guardrail, ...broken.violation },
  };
  try {
    const { groups } = difference(judged, config, checkpoint);
    const names = new Names({ before: judged.before, after: judged.after, config });
    return { preview: { ...preview, ...toGroups(groups, names) }, denied: deniedRows(groups) };
  } catch (error) {
    if (!(error instanceof ChangeOverrunError)) throw error;
    return { preview: { ...preview, noDifference: LATE }, denied: [] };
  }
}

function otherKinds(content: FileContent): Problem[] {
  const wanted: readonly string[] = PREVIEWED;
  const others = LIST_NAMES.filter((list) => !wanted.includes(list));
  return others.flatMap((list) =>
    content[list].objects.map((object: ClusterObject, i): Problem => {
      const message = 'only ClusterNetworkPolicies, ClusterGroups, Tiers and Guardrails can be previewed';
      const { kind } = object;
      const line = content[list].lines[i] ?? 0;
      return { severity: 'error', file: FILE, line, kind, name: displayName(object), path: '', message };
    }),
  );
}

/** A cluster stores an object that waits for another one. */
function toProblem({ isMissing, ...problem }: LoadProblem): Problem {
  const found: Problem = isMissing
    ? { ...problem, severity: 'warning', message: untilThen(problem.message) }
    : problem;
  // An object in force refers to one that would change.
  return found.file === FILE ? found : { ...found, message: `it would be invalid: ${found.message}` };
}

function toChange(object: ClusterObject, inForce: ClusterObjects): Preview['objects'][number] {
  const identity = identityOf(object);
  const before = PREVIEWED.flatMap((list): readonly ClusterObject[] => inForce[list]).find(
    (one) => identityOf(one) === identity,
  );
  const [kind, name] = [object.kind, displayName(object)];
  if (before === undefined) return { kind, name, change: 'added' };
  return {
    kind,
    name,
    change: isDeepStrictEqual(content(before), content(object)) ? 'unchanged' : 'replaced',
  };
}

/** Without what the API server gives an object. */
function content(object: ClusterObject): object {
  const {
    uid: _uid,
    generation: _generation,
    rollout: _rollout,
    share: _share,
    ...rest
  } = object as ClusterObject & Readonly<Record<'uid' | 'generation' | 'rollout' | 'share', unknown>>;
  return rest;
}

function difference(
  { before, after }: Pick<JudgedChange, 'before' | 'after'>,
  config: Config,
  checkpoint: () => void,
) {
  const [from, to] = [withoutGuardrails(before.compiled), withoutGuardrails(after.compiled)];
  return clusterDifference(from, to, { config, checkpoint });
}

function toGroups(groups: readonly NodeGroup[], names: Names): Pick<Preview, 'groups' | 'leftOut'> {
  let left = MOST_PREVIEW_ROWS;
  const shown = groups.flatMap(({ nodes, changes }) => {
    const rows = changes.slice(0, left).map((row) => toRow(row, names));
    left -= rows.length;
    const named = { nodes: nodes.slice(0, MOST_NAMED), nodeCount: nodes.length };
    return rows.length === 0 ? [] : [{ ...named, changes: rows }];
  });
  const all = groups.reduce((sum, { changes }) => sum + changes.length, 0);
  return { groups: shown, leftOut: all - (MOST_PREVIEW_ROWS - left) };
}

function toRow(row: Row, names: Names): PreviewRow {
  const { direction, traffic, before, after, ruleBefore, ruleAfter } = row;
  const [, , flowsText = '', peersText = ''] = cells(row, names);
  return { direction, traffic, flowsText, peersText, before, after, ruleBefore, ruleAfter };
}

/** All of the first groups, as far as there is room. */
function deniedRows(groups: readonly NodeGroup[]): DeniedRows[] {
  let left = MOST_PREVIEW_ROWS;
  return groups.flatMap(({ nodes, changes }) => {
    const rows = changes.filter(({ before, after }) => before === 'Allow' && after !== 'Allow');
    left -= rows.length;
    return rows.length === 0 || left < 0 ? [] : [{ nodes, rows }];
  });
}
