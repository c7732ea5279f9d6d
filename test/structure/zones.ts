/**
 * Who may import whom (docs/architecture.md). A zone is a folder; the longest that fits counts.
 * Everybody may import from their own zone.
 */
export interface Zone {
  readonly folder: string;
  /** Other zones, by folder. */
  readonly mayImport: readonly string[];
  readonly reason: string;
}

const LIB = ['lib/net', 'lib/sharing', 'lib/process'];
/** Zones of the controller. */
const CONTROLLER = ['controller', 'controller/egress', 'controller/egress/status', 'controller/status'];
const STAGES = ['apis', ...LIB, ...CONTROLLER, 'agent', 'agent/ipset-ts', 'agent/nftables-napi'];

export const ZONES: readonly Zone[] = [
  {
    folder: 'lib/net',
    mayImport: ['lib/sharing'],
    reason: 'arithmetic of addresses knows nothing of policies',
  },
  { folder: 'lib/sharing', mayImport: [], reason: 'mechanism without a word of the domain' },
  {
    folder: 'lib/process',
    mayImport: ['lib/sharing'],
    reason: 'mechanism without a word of the domain',
  },
  {
    folder: 'apis',
    mayImport: ['lib/net', 'lib/sharing'],
    reason: 'the values between the stages know none of them',
  },
  {
    folder: 'controller',
    mayImport: ['apis', ...LIB, ...CONTROLLER],
    reason: 'stages 1 to 3 run without an agent',
  },
  {
    folder: 'controller/egress',
    mayImport: ['apis', ...LIB, 'controller'],
    reason: 'decides who owns an address, however that is reported',
  },
  {
    folder: 'controller/status',
    mayImport: ['apis', ...LIB, 'controller'],
    reason: 'reports what others decided',
  },
  {
    folder: 'controller/egress/status',
    mayImport: ['apis', ...LIB, 'controller', 'controller/egress', 'controller/status'],
    reason: 'reports what controller/egress decided',
  },
  {
    folder: 'agent',
    mayImport: ['apis', ...LIB, 'agent/ipset-ts', 'agent/nftables-napi'],
    reason: 'stages 4 to 6 run without a controller',
  },
  { folder: 'agent/ipset-ts', mayImport: [], reason: 'a library that is useful to strangers' },
  { folder: 'agent/nftables-napi', mayImport: [], reason: 'a library that is useful to strangers' },
  { folder: 'cli', mayImport: STAGES, reason: 'wiring of what is shipped; tests are not' },
  {
    folder: 'console',
    mayImport: ['apis', 'lib/process', 'lib/sharing'],
    reason: 'runs in a browser, and knows the documents that it is sent alone',
  },
  { folder: 'bin', mayImport: [], reason: 'what makes the program is no part of it' },
  {
    folder: 'build',
    mayImport: [...STAGES, 'cli', 'test/netns'],
    reason: 'makes what is shipped of the program alone',
  },
  ...['build/demo', 'build/cluster'].map((folder) => ({
    folder,
    mayImport: [...STAGES, 'cli', 'build', 'test'],
    reason: 'shows the program on the machines of the tests',
  })),
  { folder: 'test', mayImport: [...STAGES, 'cli', 'perf', 'build'], reason: 'tests look at everything' },
  { folder: 'test/oracle', mayImport: [], reason: 'shares no code with what it judges' },
  { folder: 'test/netns', mayImport: [], reason: 'benchmarks, and what is built, use it too' },
  { folder: 'test/probe', mayImport: [], reason: 'benchmarks use it too' },
  { folder: 'perf', mayImport: [...STAGES, 'cli', 'build', 'test'], reason: 'benchmarks look at everything' },
];

export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function zoneOf(path: string): Zone | undefined {
  return ZONES.filter(({ folder }) => isWithin(folder, path)).sort(
    (a, b) => b.folder.length - a.folder.length,
  )[0];
}

/** Packages that are workspaces of this repository, and where. */
export const WORKSPACES: Readonly<Record<string, string>> = {
  'ipset-ts': 'agent/ipset-ts',
  'nftables-napi': 'agent/nftables-napi',
};

/** Why a file may not import another file of the repository; null where it may. */
export function refusal(from: string, to: string): string | null {
  const zone = zoneOf(from);
  if (zone === undefined) return `${from} is in no known folder`;
  const target = zoneOf(to);
  if (target === undefined) return `${to} is in no known folder`;
  // A test that stands beside its file may use what tests use.
  const allowed = from.endsWith('.test.ts')
    ? [zone.folder, ...zone.mayImport, 'test']
    : [zone.folder, ...zone.mayImport];
  // Folders inside these are zones to keep them free of others, not to keep others out.
  const isInside = ['build', 'test'].some((folder) => isWithin(folder, to) && allowed.includes(folder));
  if (allowed.includes(target.folder) || isInside) return null;
  return `${zone.folder} may import ${zone.mayImport.join(', ') || 'nothing of ours'}: ${zone.reason}`;
}
