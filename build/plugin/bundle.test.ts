import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { ROOT } from '../programs/folder.ts';
import { bundlePlugin, type PluginBundle } from './bundle.ts';

describe('the program of the kubectl plugin', function () {
  this.timeout(60_000);
  let bundle: PluginBundle;
  before(async () => {
    bundle = await bundlePlugin();
  });

  it('loads nothing but modules of Node.js', () => {
    const loaded = [...bundle.code.matchAll(/\brequire\("([^"]+)"\)/g)].map(([, name = '']) => name);
    assert.ok(loaded.length > 20);
    assert.deepEqual(
      loaded.filter((name) => !builtinModules.includes(name.replace(/^node:/, ''))),
      [],
    );
    // A package may call `require` by another name: UMD does.
    assert.doesNotMatch(bundle.code, /\brequire\w*\("\.{1,2}\//);
  });

  it('has no addon, agent, controller, or API client of the library', () => {
    const absent = [
      ...['agent/nftables-napi/', 'agent/run/cluster-agent.ts', 'agent/run/enforcement.ts'],
      ...['controller/run/controller.ts', 'node_modules/@kubernetes/client-node/dist/gen/models/'],
    ];
    for (const part of absent) {
      assert.ok(existsSync(join(ROOT, part)), part);
      assert.deepEqual(
        bundle.sources.filter((path) => path.includes(part)),
        [],
      );
    }
    assert.ok(bundle.sources.includes('cli/status.ts'));
  });

  it('is the same each time, and names no folder of this machine', async () => {
    assert.equal((await bundlePlugin()).code, bundle.code);
    assert.ok(!bundle.code.includes(process.cwd()));
  });
});
