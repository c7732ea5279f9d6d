import type { ClusterGroup, ClusterNetworkPolicy } from '../../apis/objects.ts';
import { groupLookup, membersOf } from '../../apis/validate/groups.ts';
import { FOR_PODS_ONLY } from '../../apis/validate/policy.ts';
import type { FileContent, Listed, Undecided } from './content.ts';
import type { LoadProblem } from './source.ts';

/**
 * Decides the undecided policies of files: those for pods only become a notice, the others are
 * added as usual.
 */
export function decide(
  contents: readonly FileContent[],
  groups: readonly ClusterGroup[],
  invalid: ReadonlySet<string>,
): FileContent[] {
  const lookup = groupLookup(groups, invalid);
  const isForPods = ({ apiGroup, podGroups }: Undecided): boolean =>
    podGroups.every((name) => {
      const group = lookup(apiGroup, name);
      return group !== undefined && membersOf(group, lookup) === 'pods';
    });
  return contents.map((content) => {
    if (content.undecided.length === 0) return content;
    const skipped = content.undecided.filter(isForPods);
    const others = content.undecided.filter((each) => !skipped.includes(each)).map((each) => each.otherwise);
    return {
      ...content,
      undecided: [],
      policies: joined([content, ...others].map(({ policies }) => policies)),
      rejected: new Set([content, ...others].flatMap(({ rejected }) => [...rejected])),
      rejectedReferences: [content, ...others].flatMap(({ rejectedReferences }) => rejectedReferences),
      problems: [
        ...[content, ...others].flatMap(({ problems }) => problems),
        ...skipped.map((each) => toNotice(content.file, each)),
      ],
    };
  });
}

function joined(lists: readonly Listed<ClusterNetworkPolicy>[]): Listed<ClusterNetworkPolicy> {
  return {
    objects: lists.flatMap(({ objects }) => objects),
    lines: lists.flatMap(({ lines }) => lines),
    referenceLines: lists.flatMap(({ referenceLines }) => referenceLines),
  };
}

function toNotice(file: string, { name, line }: Undecided): LoadProblem {
  const kind = 'ClusterNetworkPolicy';
  return { severity: 'notice', file, line, kind, name, path: '', message: FOR_PODS_ONLY };
}
