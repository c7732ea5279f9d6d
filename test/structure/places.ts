/**
 * Where each folder of controller/ and agent/ stands: the six stages in the order in which data
 * pass them, and what joins them. docs/architecture.svg is drawn from this table, and a test holds
 * the table against the folders and their imports.
 */

/** A box of the main row: one stage, which may be two folders. */
interface Stage {
  readonly name: string;
  /** In the order in which they may import: a folder imports no later stage of its side. */
  readonly folders: readonly string[];
  /** The value that leaves it. */
  readonly value: string;
}

export const STAGES: readonly Stage[] = [
  { name: '1 watch', folders: ['controller/watch'], value: 'ClusterObjects' },
  { name: '2 compile', folders: ['controller/index', 'controller/compile'], value: 'Compiled' },
  { name: '3 publish', folders: ['controller/publish'], value: 'stream' },
  { name: '4 receive', folders: ['agent/receive'], value: 'NodeState' },
  { name: '5 render', folders: ['agent/render'], value: 'Ruleset' },
  { name: '6 apply', folders: ['agent/apply'], value: 'transaction' },
];

/** What is no stage. */
interface Place {
  readonly folder: string;
  /** Number of the stage at which it joins. */
  readonly at: 1 | 2 | 3 | 4 | 5 | 6;
  /** `way`: the data pass it. `beside`: it reads, tells or answers. */
  readonly side: 'way' | 'beside';
  /** For the picture: at most 29 characters. */
  readonly does: string;
}

const way = (at: Place['at'], folder: string, does: string): Place => ({ folder, at, side: 'way', does });
const beside = (at: Place['at'], folder: string, does: string): Place => ({
  folder,
  at,
  side: 'beside',
  does,
});

export const PLACES: readonly Place[] = [
  way(1, 'controller/webhook', 'validates before storing'),
  way(2, 'controller/egress', 'egress gateways, owners'),
  way(3, 'controller/rollout', 'which node gets which version'),
  way(4, 'agent/guard', 'tries, confirms, takes back'),
  way(4, 'agent/names', 'addresses of fqdn peers'),
  way(4, 'agent/interfaces', 'which links are pods’'),
  way(4, 'agent/platform', 'what carries pods'),
  way(5, 'agent/egress', 'egress gateways in the kernel'),
  beside(5, 'agent/extension', 'the port of egress gateways'),
  way(6, 'agent/dataplane', 'nftables or iptables'),
  beside(1, 'controller/kubeapi', 'requests to the API server'),
  beside(1, 'controller/replicas', 'the other controllers'),
  beside(1, 'controller/check', 'is the cluster fit?'),
  beside(1, 'controller/bundle', 'facts for maintainers'),
  beside(2, 'controller/extension', 'the port of egress gateways'),
  beside(2, 'controller/difference', 'the exact difference'),
  beside(2, 'controller/impact', 'a change’s effect on flows'),
  beside(2, 'controller/advise', 'policies from flows'),
  beside(3, 'controller/status', 'what became of each policy'),
  beside(3, 'controller/heartbeat', 'the Lease, egress leases'),
  beside(3, 'controller/console', 'documents for the pages'),
  beside(3, 'controller/metrics', 'metrics of all nodes'),
  beside(4, 'agent/inspect', 'answers about the node'),
  beside(4, 'agent/check', 'is the machine fit?'),
  beside(4, 'agent/bundle', 'facts for maintainers'),
  beside(5, 'agent/observe', 'explain'),
  beside(5, 'agent/connections', 'ends what rules deny'),
  beside(6, 'agent/record', 'flow log, counters'),
  beside(6, 'agent/flows', 'kinds of flows'),
  beside(6, 'agent/boot', 'rules for the next boot'),
  beside(6, 'agent/nftables-napi', 'nf_tables netlink'),
  beside(6, 'agent/ipset-ts', 'the ipset command'),
];

/** They wire the others. */
export const PROCESSES: readonly string[] = ['controller/run', 'agent/run'];

/** Pixels. */
const COLUMN = 212;
const BOX = { width: 190, height: 38, gap: 8 };
const STAGE = { height: 58 };
const MARGIN = 24;
const TITLE = 54;
/** Between the main row and what joins it. */
const JOINT = 34;
const FONT = 'Verdana, DejaVu Sans, sans-serif';
const COLOURS = {
  controller: { fill: '#e8f0fb', line: '#3b6fb5' },
  agent: { fill: '#e9f6ec', line: '#2f8a4c' },
} as const;

type Side = keyof typeof COLOURS;
const sideOf = (folder: string): Side => (folder.startsWith('agent/') ? 'agent' : 'controller');

/** The six stages and what joins them, as an SVG document; equal tables are equal bytes. */
export function picture(): string {
  const most = (side: Place['side']): number =>
    Math.max(...STAGES.map((_, column) => placesAt(column, side).length));
  const row = TITLE + most('way') * (BOX.height + BOX.gap) + JOINT;
  const bottom = row + STAGE.height + JOINT + most('beside') * (BOX.height + BOX.gap);
  const [width, height] = [2 * MARGIN + STAGES.length * COLUMN, bottom + MARGIN];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="11">`,
    '<title>The six stages of nodewall, and what joins them</title>',
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">' +
      '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    text(left(0), 22, 'Controller (controller/run)', { size: 14, isBold: true }),
    text(left(0), 40, 'above: data pass it; below: it reads, reports or answers', { isFaint: true }),
    text(left(3), 22, 'Agent, on each node (agent/run)', { size: 14, isBold: true }),
    line(left(3) - 11, 8, left(3) - 11, height - 8, 'stroke-dasharray="5 4"'),
    ...STAGES.flatMap((_, column) => columnOf(column, row)),
    '</svg>',
    '',
  ].join('\n');
}

function columnOf(column: number, row: number): string[] {
  const stage = STAGES[column];
  if (stage === undefined) return [];
  const [x, middle] = [left(column), left(column) + BOX.width / 2];
  const [above, below] = [placesAt(column, 'way'), placesAt(column, 'beside')];
  const first = row - JOINT - above.length * (BOX.height + BOX.gap) + BOX.gap;
  const second = row + STAGE.height + JOINT;
  const isLast = column === STAGES.length - 1;
  const end = x + COLUMN + (isLast ? -4 : 0);
  return [
    rect(x, row, STAGE.height, sideOf(stage.folders[0] ?? ''), 2),
    text(middle, row + 24, stage.name, { size: 14, isBold: true, isCentred: true }),
    text(middle, row + 43, foldersText(stage.folders), { isCentred: true }),
    line(x + BOX.width, row + STAGE.height / 2, end, row + STAGE.height / 2, 'marker-end="url(#arrow)"'),
    text(middle, row + STAGE.height + 15, `→ ${stage.value}${isLast ? ' → kernel' : ''}`, {
      isCentred: true,
      isFaint: true,
    }),
    ...(above.length === 0 ? [] : [line(middle, row - JOINT, middle, row, 'marker-end="url(#arrow)"')]),
    ...above.flatMap((place, i) => boxOf(place, x, first + i * (BOX.height + BOX.gap))),
    ...below.flatMap((place, i) => boxOf(place, x, second + i * (BOX.height + BOX.gap))),
  ];
}

function boxOf({ folder, does }: Place, x: number, y: number): string[] {
  return [
    rect(x, y, BOX.height, sideOf(folder), 1),
    text(x + 8, y + 16, folder, { isBold: true }),
    text(x + 8, y + 30, does, {}),
  ];
}

const placesAt = (column: number, side: Place['side']): Place[] =>
  PLACES.filter((place) => place.at === column + 1 && place.side === side);

const left = (column: number): number => MARGIN + column * COLUMN;

/** `controller/{index,compile}` */
function foldersText(folders: readonly string[]): string {
  const [side = ''] = folders[0]?.split('/') ?? [];
  const names = folders.map((folder) => folder.slice(side.length + 1));
  return `${side}/${names.length > 1 ? `{${names.join(', ')}}` : names[0]}`;
}

function rect(x: number, y: number, height: number, side: Side, width: number): string {
  const { fill, line: stroke } = COLOURS[side];
  return `<rect x="${x}" y="${y}" width="${BOX.width}" height="${height}" rx="4" fill="${fill}" stroke="${stroke}" stroke-width="${width}"/>`;
}

function line(x1: number, y1: number, x2: number, y2: number, more: string): string {
  return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="#555" ${more}/>`;
}

interface Look {
  readonly size?: number;
  readonly isBold?: boolean;
  readonly isCentred?: boolean;
  readonly isFaint?: boolean;
}

function text(x: number, y: number, words: string, { size, isBold, isCentred, isFaint }: Look): string {
  const parts = [
    `x="${x}" y="${y}" fill="${isFaint ? '#555' : '#111'}"`,
    size === undefined ? '' : ` font-size="${size}"`,
    isBold ? ' font-weight="bold"' : '',
    isCentred ? ' text-anchor="middle"' : '',
  ];
  return `<text ${parts.join('')}>${words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
}
