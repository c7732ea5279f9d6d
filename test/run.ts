import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, getPriority, setPriority, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Counts } from './reporter.ts';

/**
 * `npm test`: types, lint, then every test, slowest and most privileged last. Each failure is
 * printed again at the end; the last line is `N passed, N failed, N skipped`. Arguments pick suites
 * by name (`npm test -- unit kernel`); `quick` is for the inner loop: types, lint and all unit
 * tests that need no root, in under two minutes. The first e2e run on a machine builds Kubernetes'
 * API server (test/cluster). `--times` prints the processor time of each suite and the slowest
 * files.
 */
const SUITES = {
  unit: [
    '{apis,lib}/**/*.test.ts',
    'controller/**/*.test.ts',
    'agent/{receive,render,apply,boot,bundle,check,connections,dataplane,egress,flows,guard,inspect,run,observe,interfaces,names,platform,record}/**/*.test.ts',
    'cli/**/*.test.ts',
    'console/{data,view}/**/*.test.ts',
    'perf/**/*.test.ts',
    'build/{hooks,manifests,package}/**/*.test.ts',
    'test/{dns,docs,fake,structure,oracle,tracer,cases,invalid,migrate,netns,peers,probe}/**/*.test.ts',
  ],
  abuse: ['test/abuse/**/*.test.ts'],
  properties: ['test/{properties,fuzz,generate}/**/*.test.ts'],
  addon: ['agent/{ipset-ts,nftables-napi}/test/**/*.test.ts'],
  cli: ['test/cli/**/*.test.ts'],
  console: ['test/console/**/*.test.ts'],
  kernel: ['test/kernel/**/*.test.ts', 'build/demo/**/*.test.ts'],
  e2e: [
    'test/{cluster,faults,metrics,skew}/**/*.test.ts',
    'test/e2e/*.test.ts',
    'build/{plugin,programs}/**/*.test.ts',
  ],
  realcluster: ['{test/realcluster,build/cluster,build/images}/**/*.test.ts'],
} as const;
type Suite = keyof typeof SUITES;
/**
 * What makes a suite's needs ahead, so that its tests' time limits are theirs alone: programs of
 * Go, which take both cores for many minutes once, and nodewall's compiled code, before all suites;
 * images, which take a core for half a minute wherever the program has changed, before that suite.
 */
const MADE_FIRST: { readonly [suite: string]: string } = {
  kernel: 'test/compile-code.ts',
  e2e: 'test/cluster/build.ts',
  realcluster: 'build/cluster/programs.ts',
};
const MADE_BEFORE: { readonly [suite: string]: string } = { realcluster: 'build/cluster/box.ts' };
/** Suites whose files run side by side: those of kernel, e2e, abuse and cli mostly wait. */
const JOBS: { readonly [suite: string]: number } = {
  unit: 2,
  properties: 2,
  addon: 2,
  abuse: 2,
  cli: 2,
  kernel: 3,
  e2e: 5,
};
/**
 * The files that take longest begin first, in this order, so that no job ends long after the
 * others.
 */
const FIRST: readonly string[] = [
  ...['api-server', 'story-changes', 'controllers', 'story-failures', 'asked-cluster'],
  ...['story-accidents', 'simulated-agents', 'story-faults', 'uninstall', 'agents', 'egress'],
  ...['guard-deadline', 'cluster-agent', 'kinds', 'record', 'names', 'interfaces', 'dataplanes'],
  ...['atomic-language', 'demo', 'controller'],
];
/** Unit tests that make namespaces or mounts, or wait for real time. */
const NOT_QUICK: readonly string[] = [
  'agent/apply/netlink/encode.test.ts',
  'agent/record/recorder.test.ts',
  'agent/record/writer.rotating-file.test.ts',
  'lib/process/state-file.test.ts',
  'test/fake/real-apply.test.ts',
  'test/fake/contract.test.ts',
  'test/tracer/path-kernel.test.ts',
];
/** What tsc keeps for its next run: files that are as they were are not checked again. */
const kept = (name: string): readonly string[] => [
  ...['--pretty', '--incremental', '--tsBuildInfoFile'],
  join(import.meta.dirname, '../node_modules/.cache', `${name}.tsbuildinfo`),
];
const CHECKS = {
  tsc: ['tsc', ...kept('tsc')],
  'tsc of the console': ['tsc', '-p', 'console', ...kept('console')],
  biome: ['biome', 'check', '--error-on-warnings', '.'],
} as const;
/**
 * Two suites run side by side, as tests of the kernel and of clusters mostly wait: with three, the
 * probes of the real cluster fail on two cores. They begin in this order, so that neither side ends
 * long after the other. Only one side is shown as it runs; the other's output comes when each of
 * its suites has ended.
 */
const ORDER: readonly Suite[] = ['realcluster', 'e2e', 'kernel', 'unit', 'addon', 'abuse', 'console', 'cli'];
/**
 * Beside them, with the processor time that they leave: types, lint, and suites whose tests have
 * time enough.
 */
const BESIDE: readonly Suite[] = ['properties'];
/** How much nicer these are. At 19 they would stand still while two others compute. */
const NICE = 10;
/** Each of their tests may take so long, where its file says nothing else (milliseconds). */
const NICE_LIMIT = 600_000;

const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
/** Seconds, of which some suites run side by side. */
const suiteTimes: { readonly name: string; readonly wall: number; readonly processor: number }[] = [];
/** Seconds of tests and hooks by file. */
const fileTimes = new Map<string, number>();
/** Seconds of children that have ended. */
let processorBefore = 0;
/** How many files `--times` prints. */
const SLOWEST = 10;
const bin = join(import.meta.dirname, '..', 'node_modules', '.bin');
const scratch = mkdtempSync(join(tmpdir(), 'nodewall-test-'));
// Test files and the programs they start are compiled once, not by each process: see bin/nodewall.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '..', 'node_modules', '.cache', 'nodewall');
// Kubernetes' programs are started hundreds of times: they collect garbage later than by default.
process.env.GOGC ??= '400';
const hasTimes = process.argv.includes('--times');
const wanted = process.argv.slice(2).filter((one) => one !== '--times');
const isQuick = wanted.includes('quick');
const isWanted = (name: string): boolean =>
  wanted.length === 0 || wanted.includes(name) || (isQuick && (name in CHECKS || name === 'unit'));

await Promise.all(
  Object.entries(MADE_FIRST).map(([name, program]) => (isWanted(name) ? make(program) : undefined)),
);
const waiting = ORDER.filter(isWanted);
const beside = { isShown: waiting.length === 0, nice: NICE };
await Promise.all([
  runEach(waiting, { isShown: true, nice: 0 }),
  runEach(waiting, { isShown: false, nice: 0 }),
  check().then(() => runEach(BESIDE.filter(isWanted), beside)),
]);
rmSync(scratch, { recursive: true });
if (hasTimes) process.stdout.write(timesText());
for (const failure of failures) process.stdout.write(`\nFAILED ${failure}\n`);
process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;

/** How a suite runs. */
interface Running {
  /** Its output as it comes; else once it has ended. */
  readonly isShown: boolean;
  /** Added to this process's own nice value. */
  readonly nice: number;
}

/** Runs suites until none is left in the list, which others may take from meanwhile. */
async function runEach(suites: Suite[], running: Running): Promise<void> {
  for (let name = suites.shift(); name !== undefined; name = suites.shift()) await runSuite(name, running);
}

/** Types and lint. */
async function check(): Promise<void> {
  for (const [name, [program, ...args]] of Object.entries(CHECKS)) {
    if (!isWanted(name)) continue;
    const started = performance.now();
    const child = spawn(join(bin, program), args, { stdio: 'inherit' });
    beNice(child, NICE);
    const [status] = await once(child, 'close');
    measured(name, started);
    if (status === 0) counts.passed++;
    else fail(`${name}: its output is above`);
  }
}

async function make(program: string): Promise<void> {
  const started = performance.now();
  const [status] = await once(spawn(process.execPath, [program], { stdio: 'inherit' }), 'close');
  measured(program, started);
  if (status !== 0) fail(`${program}: its output is above`);
}

/** What the process starts from now on is as nice. */
function beNice({ pid }: ChildProcess, nice: number): void {
  if (pid !== undefined && nice > 0)
    setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + nice));
}

/**
 * A child has ended. Its processor time, and that of its children, is what the kernel has added to
 * this process's waited-for children since the last one ended (proc_pid_stat(5), cutime, cstime).
 */
function measured(name: string, started: number): void {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  // In ticks, 100 of which are a second for every program (USER_HZ).
  const processor = (Number(fields[13]) + Number(fields[14])) / 100;
  const wall = (performance.now() - started) / 1000;
  suiteTimes.push({ name, wall, processor: processor - processorBefore });
  processorBefore = processor;
}

function timesText(): string {
  const seconds = (value: number): string => value.toFixed(1).padStart(8);
  const sum = suiteTimes.reduce((all, { processor }) => all + processor, 0);
  const slowest = [...fileTimes].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  return [
    '',
    '   all s   CPU s  suite',
    ...suiteTimes.map(({ name, wall, processor }) => `${seconds(wall)}${seconds(processor)}  ${name}`),
    `${seconds(performance.now() / 1000)}${seconds(sum)}  together`,
    '',
    '       s  slowest files, by their tests and hooks',
    ...slowest.map(([file, time]) => `${seconds(time)}  ${file}`),
    '',
  ].join('\n');
}

function fail(why: string): void {
  counts.failed++;
  failures.push(why);
}

/** Where a file is in the order in which they begin. */
function turn(path: string): number {
  const place = FIRST.indexOf(basename(path, '.test.ts'));
  return place === -1 ? FIRST.length : place;
}

async function runSuite(name: Suite, { isShown, nice }: Running): Promise<void> {
  const files = SUITES[name]
    .flatMap((pattern) => globSync(pattern, { exclude: ['**/node_modules/**'] }))
    .filter((path) => !isQuick || !NOT_QUICK.includes(path))
    .sort((a, b) => turn(a) - turn(b) || (a < b ? -1 : 1));
  if (files.length === 0) return;
  const program = MADE_BEFORE[name];
  if (program !== undefined) await make(program);
  const started = performance.now();
  const report = join(scratch, `${name}.json`);
  const jobs = JOBS[name];
  const parallel = jobs === undefined ? [] : ['--parallel', '--jobs', String(jobs)];
  const limit = nice > 0 ? ['--timeout', String(NICE_LIMIT)] : [];
  const args = ['--reporter-option', `counts=${report}`, ...limit, ...parallel, ...files];
  if (isShown) process.stdout.write(`\n# ${name}\n`);
  const child = spawn(join(bin, 'mocha'), args, {
    stdio: ['ignore', isShown ? 'inherit' : 'pipe', isShown ? 'inherit' : 'pipe'],
  });
  beNice(child, nice);
  const parts: Buffer[] = [];
  child.stdout?.on('data', (part) => parts.push(part));
  child.stderr?.on('data', (part) => parts.push(part));
  const [status] = await once(child, 'close');
  measured(name, started);
  if (!isShown) process.stdout.write(`\n# ${name}\n${Buffer.concat(parts)}`);
  process.stdout.write(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
  try {
    const suite: Counts = JSON.parse(readFileSync(report, 'utf8'));
    counts.passed += suite.passed;
    counts.failed += suite.failed;
    counts.skipped += suite.skipped;
    failures.push(...suite.failures.map((failure) => `${name}: ${failure}`));
    for (const [file, milliseconds] of Object.entries(suite.files)) fileTimes.set(file, milliseconds / 1000);
    if (status !== 0 && suite.failed === 0) fail(`${name}: mocha ended with status ${status}`);
  } catch {
    // Whatever it printed.
    fail(`${name}: mocha died before its end`);
  }
}
