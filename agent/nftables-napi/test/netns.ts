import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const outerNamespace = 'NFTABLES_NAPI_OUTER_NAMESPACE';

function currentNamespace(): string {
  return readlinkSync('/proc/self/ns/net');
}

/**
 * Runs a test file's suite in a throw-away network namespace: the file is run again by a mocha of
 * its own under `unshare -n`, and this process only has one test that says how that went. The
 * namespace goes when that process does, however it ends. (test/netns holds namespaces open and
 * enters them with processes; here the addon itself is tested, and its process must be inside.)
 */
export function inNamespace(file: string, suite: () => void): void {
  const outer = process.env[outerNamespace];
  if (outer !== undefined) {
    // Never load rules where somebody lives.
    assert.notEqual(currentNamespace(), outer, 'this is not a network namespace of our own');
    suite();
    return;
  }
  it(`${path.basename(file)}, in a network namespace of its own`, function () {
    this.timeout(180_000);
    const probe = spawnSync('unshare', ['-n', 'nft', 'add table ip probe'], { encoding: 'utf8' });
    if (probe.status !== 0) {
      const why = `needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN), unshare and nft: ${probe.stderr ?? probe.error}`;
      if (process.env.NODEWALL_ALLOW_SKIP !== '1') throw new Error(why);
      process.stdout.write(`skipped, ${why}\n`);
      this.skip();
    }
    const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js');
    const { status } = spawnSync(
      'unshare',
      ['-n', process.execPath, '--expose-gc', mocha, '--no-config', '--timeout', '120000', file],
      {
        stdio: ['ignore', 'inherit', 'inherit'],
        env: { ...process.env, [outerNamespace]: currentNamespace() },
      },
    );
    assert.equal(status, 0, `${path.basename(file)} failed, see above`);
  });
}

/** Whether this kernel is at least that version. */
export function isLinux(major: number, minor: number): boolean {
  const [here = 0, below = 0] = os
    .release()
    .split('.')
    .map((part) => Number.parseInt(part, 10));
  return here > major || (here === major && below >= minor);
}

/** Runs the nft command in this namespace, and gives what it prints. */
export function nft(...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('nft', args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`nft ${args.join(' ')}: ${stderr ?? error}`);
  return stdout;
}

/** Runs the ip command in this namespace, and gives what it prints. */
export function ip(...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('ip', args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr ?? error}`);
  return stdout;
}

/** Runs many ip commands in one process. */
export function ipBatch(commands: readonly string[]): void {
  const { status, stderr, error } = spawnSync('ip', ['-b', '-'], {
    input: commands.join('\n'),
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`ip -b: ${stderr ?? error}`);
}
