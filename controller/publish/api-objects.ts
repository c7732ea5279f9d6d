import type { NodeState } from '../../apis/compiled.ts';
import { NODE_DATA } from '../../apis/node-question.ts';
import { type NodeReport, nodePhase } from '../../apis/node-report.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { toWrittenRule } from '../../apis/wire.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { VIEW_EXTENSION } from '../extension/view.ts';
import { claimedText } from '../index/accepted-addresses.ts';
import type { NodeCounts } from './changes.ts';

const API_VERSION = `${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;

/** A node's view as kubectl shows it: the desired state, and the last report of its agent. */
export interface NodeViewSummary {
  readonly name: string;
  readonly counts: NodeCounts;
  readonly report: NodeReport | null;
  readonly ignoredAddresses: IgnoredAddresses;
}

/** Addresses of a Node object that do not count. */
export interface IgnoredAddresses {
  /** Outside of nodeCIDRs. */
  readonly outside: readonly string[];
  /** Something else has them: each with its holder. */
  readonly claimed: readonly string[];
}

export const NONE_IGNORED: IgnoredAddresses = { outside: [], claimed: [] };

/**
 * A list has the numbers of rules and sets instead of the view itself, which is megabytes for each
 * node.
 */
function toNodeView(summary: NodeViewSummary, revision: string): object {
  const { name, counts, report, ignoredAddresses: ignored } = summary;
  return {
    kind: 'NodeView',
    apiVersion: API_VERSION,
    metadata: { name, resourceVersion: revision },
    counts,
    ...(report === null ? {} : { status: report }),
    ...(ignored.outside.length + ignored.claimed.length === 0
      ? {}
      : { conditions: [addressesIgnored(ignored)] }),
  };
}

/** With nodeCIDRs, nothing counts as claimed. */
function addressesIgnored({ outside, claimed }: IgnoredAddresses): object {
  const said = { type: 'AddressesAccepted', status: 'False' };
  if (claimed.length > 0) return { ...said, reason: 'HeldByOthers', message: claimedText(claimed) };
  const message = `outside nodeCIDRs of the configuration, and left out: ${outside.join(', ')}`;
  return { ...said, reason: 'OutsideNodeCIDRs', message };
}

export function toWholeNodeView(summary: NodeViewSummary, state: NodeState, revision: string): object {
  const { rules, addressSets, serviceSets, allNodes, controllers, apiServerPorts, nodeAddresses } = state;
  return {
    ...toNodeView(summary, revision),
    view: {
      addresses: nodeAddresses,
      allNodes,
      controllers,
      apiServerPorts,
      rules: rules.map(toWrittenRule),
      addressSets: addressSets
        .values()
        .map((set) => ({ ...set, members: formatMembers(set.members) }))
        .toArray(),
      serviceSets: [...serviceSets.values()],
      ...VIEW_EXTENSION.written(state),
    },
  };
}

export function toNodeViewList(summaries: readonly NodeViewSummary[], revision: string): object {
  return {
    kind: 'NodeViewList',
    apiVersion: API_VERSION,
    metadata: { resourceVersion: revision },
    items: summaries.map((one) => toNodeView(withoutTotals(one), revision)),
  };
}

/** The totals of thousands of nodes are megabytes, which the metrics have anyway. */
function withoutTotals(summary: NodeViewSummary): NodeViewSummary {
  const { totals: _, ...report } = summary.report ?? {};
  return summary.report === null ? summary : { ...summary, report: report as NodeReport };
}

const COLUMNS = [
  ['Name', 'string', 'Name of the Node', 0],
  ['Rules', 'integer', 'Rules the node must enforce', 0],
  ['Address sets', 'integer', 'Address sets that these rules use', 0],
  ['State', 'string', 'State in the last report of the agent: whether all rules sent to it are in force', 0],
  ['Failing', 'integer', 'Rules the agent could not enforce', 0],
  ['Reported', 'date', 'Time of the last report', 0],
  ['Version', 'string', 'Version of the agent', 1],
  ['Revision', 'string', 'The revision in force on the node', 1],
] as const;

/**
 * A meta/v1 Table.
 * @param now milliseconds since 1970
 */
export function toTable(summaries: readonly NodeViewSummary[], revision: string, now: number): object {
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion: revision },
    columnDefinitions: COLUMNS.map(([name, type, description, priority]) => {
      return { name, type, format: name === 'Name' ? 'name' : '', description, priority };
    }),
    rows: summaries.map((one) => ({
      cells: toCells(one, now),
      object: {
        kind: 'PartialObjectMetadata',
        apiVersion: 'meta.k8s.io/v1',
        metadata: { name: one.name, resourceVersion: revision },
      },
    })),
  };
}

function toCells(summary: NodeViewSummary, now: number): (string | number)[] {
  const { name, counts, report } = summary;
  const { rules, addressSets } = counts;
  if (report === null) return [name, rules, addressSets, 'Unknown', 0, '<none>', '<none>', '<none>'];
  return [
    name,
    rules,
    addressSets,
    nodePhase(report, now),
    report.failing.length,
    age(now - Date.parse(report.time)),
    report.version,
    shortRevision(report.enforced) ?? '<none>',
  ];
}

/** Without the position of the watches, which is long. */
function shortRevision(revision: string | null): string | undefined {
  return revision?.split('.').slice(0, 2).join('.');
}

/** An age in kubectl's format: the two largest units if the first is small. */
function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 600) return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
  if (seconds < 3 * 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

const { group, version } = CONTROL_PLANE;
const GROUP_VERSION = `${group}/${version}`;
const API = { groupVersion: GROUP_VERSION, version };
const GROUP = { name: group, versions: [API], preferredVersion: API };

/**
 * Discovery documents of the API, by path: meta/v1 APIGroupList, APIGroup and APIResourceList, and
 * OpenAPI documents without schemas. The verbs don't include watch: its messages are not meta/v1
 * WatchEvents, so informers must not try.
 */
export const DISCOVERY: ReadonlyMap<string, object> = new Map<string, object>([
  ['/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: [GROUP] }],
  [`/apis/${group}`, { kind: 'APIGroup', apiVersion: 'v1', ...GROUP }],
  [
    `/apis/${GROUP_VERSION}`,
    {
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion: GROUP_VERSION,
      resources: [
        {
          name: 'nodeviews',
          singularName: 'nodeview',
          namespaced: false,
          kind: 'NodeView',
          shortNames: ['nv'],
          verbs: ['get', 'list'],
        },
        {
          name: 'nodeviews/status',
          singularName: '',
          namespaced: false,
          kind: 'NodeView',
          verbs: ['update'],
        },
        ...NODE_DATA.map((about) => ({
          name: `nodeviews/${about}`,
          singularName: '',
          namespaced: false,
          kind: 'NodeView',
          verbs: ['get'],
        })),
        {
          name: 'controllers',
          singularName: 'controller',
          namespaced: false,
          kind: 'Controller',
          verbs: ['list'],
        },
        { name: 'console', singularName: '', namespaced: false, kind: 'ConsoleFile', verbs: ['get'] },
        { name: 'overviews', singularName: 'overview', namespaced: false, kind: 'Overview', verbs: ['get'] },
        { name: 'previews', singularName: 'preview', namespaced: false, kind: 'Preview', verbs: ['create'] },
      ],
    },
  ],
  ['/openapi/v2', { swagger: '2.0', info: { title: 'nodewall', version }, paths: {}, definitions: {} }],
  [
    '/openapi/v3',
    {
      paths: {
        [`apis/${GROUP_VERSION}`]: { serverRelativeURL: `/openapi/v3/apis/${GROUP_VERSION}?hash=${version}` },
      },
    },
  ],
  [
    `/openapi/v3/apis/${GROUP_VERSION}`,
    { openapi: '3.0.0', info: { title: 'nodewall', version }, paths: {}, components: { schemas: {} } },
  ],
]);
