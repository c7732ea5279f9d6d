/** What `dataplane: auto` tries, in namespaces of its own and without. */
import assert from 'node:assert/strict';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { kernelSuite } from './kernel-suite.ts';

const MODULE = new URL('../../agent/apply/netlink/nft-trial.ts', import.meta.url);
/**
 * Runs a command that can open no socket of NETLINK_NETFILTER, as where the kernel has none: by a
 * filter of system calls for x86-64 and arm64 (seccomp(2)).
 */
const WITHOUT_NETFILTER = `
import ctypes, os, platform, struct, sys
call = {'x86_64': 41, 'aarch64': 198}[platform.machine()]
# Fields of struct seccomp_data: the call, its first and third argument.
lines = [(0x20, 0, 0, 0), (0x15, 0, 5, call), (0x20, 0, 0, 16), (0x15, 0, 3, 16), (0x20, 0, 0, 32),
         (0x15, 0, 1, 12), (6, 0, 0, 0x50000 | 93), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in lines))
program = struct.pack('@HP', len(lines), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
`;

kernelSuite('the trial of nftables', () => {
  let namespace: Namespace;
  before(async () => {
    namespace = await createNamespace('nfttrial');
  });
  after(() => namespace?.close());

  /** What each way says in a namespace where somebody has a table. */
  async function tryAll(...before: readonly string[]): Promise<{ works: boolean; why?: string }[]> {
    const script = `
      const { TRIAL_WAYS } = await import(${JSON.stringify(MODULE.href)});
      const trials = [];
      for (const way of TRIAL_WAYS) trials.push(await way());
      process.stdout.write(JSON.stringify(trials));`;
    const { stdout } = await namespace.run([
      ...before,
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ]);
    return JSON.parse(stdout);
  }

  it('succeeds in each way here, and leaves nothing behind', async () => {
    await namespace.run(['nft', 'add', 'table', 'inet', 'theirs']);
    assert.deepEqual(await tryAll(), [{ works: true }, { works: true }, { works: true }]);
    const { stdout } = await namespace.run(['nft', 'list', 'tables']);
    assert.equal(stdout, 'table inet theirs\n');
  });

  it('succeeds with what egress gateways need', async () => {
    const script = `
      const { tryEgress } = await import(${JSON.stringify(MODULE.href)});
      process.stdout.write(JSON.stringify(await tryEgress()));`;
    const { stdout } = await namespace.run([process.execPath, '--input-type=module', '-e', script]);
    assert.equal(stdout, '{"works":true}');
  });

  it('says in each way that netfilter cannot be reached', async () => {
    const trials = await tryAll('python3', '-c', WITHOUT_NETFILTER);
    assert.equal(trials.length, 3);
    for (const trial of trials) assert.match(trial.why ?? '', /netlink socket: Protocol not supported$/);
  });

  it('starts no further process in a namespace of its own', async () => {
    const script = `
      process.execPath = '/nonexistent';
      const { tryHere } = await import(${JSON.stringify(MODULE.href)});
      process.stdout.write(JSON.stringify(await tryHere({ hooked: true })));`;
    const { stdout } = await namespace.run([process.execPath, '--input-type=module', '-e', script]);
    assert.equal(stdout, '{"works":true}');
  });

  it('runs in a namespace or not at all, and fails without permission', async () => {
    // Root without capabilities: the namespace is that of a user, and nothing can be tried here.
    const trials = tryAll('setpriv', '--bounding-set=-all', '--inh-caps=-all');
    await assert.rejects(trials, /Operation not permitted/);
  });
});
