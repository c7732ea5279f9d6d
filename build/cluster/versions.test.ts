import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../programs/folder.ts';
import { CONTAINERD_NAMES, chosenContainerd, chosenKubernetes, KUBERNETES_NAMES } from './versions.ts';

describe('the versions of a cluster', () => {
  it('are those of go.mod and of Debian where nobody chose others', () => {
    const { release, isDefault } = chosenKubernetes({ NODEWALL_KUBERNETES: '' });
    const goMod = readFileSync(join(ROOT, 'test/cluster/go.mod'), 'utf8');
    assert.ok(isDefault);
    assert.match(goMod, new RegExp(`^\\tk8s\\.io/kubernetes v${RegExp.escape(release)}$`, 'm'));
    assert.equal(chosenContainerd({}).isDefault, true);
  });

  it('are chosen by the environment', () => {
    for (const name of KUBERNETES_NAMES)
      assert.ok(chosenKubernetes({ NODEWALL_KUBERNETES: name }).release.startsWith(`${name}.`));
    for (const name of CONTAINERD_NAMES) {
      const { release } = chosenContainerd({ NODEWALL_CONTAINERD: name });
      assert.ok(name === '1.6' ? release === null : release?.startsWith(`${name}.`), name);
    }
  });

  it('are refused, with those that are known, where they are not', () => {
    assert.throws(() => chosenKubernetes({ NODEWALL_KUBERNETES: '1.2' }), {
      message:
        'NODEWALL_KUBERNETES=1.2: not known here; known are 1.34, 1.35, 1.36, 1.37 (build/cluster/versions.ts)',
    });
    assert.throws(
      () => chosenContainerd({ NODEWALL_CONTAINERD: 'toString' }),
      /^Error: NODEWALL_CONTAINERD=toString: not known here; known are 1\.6, 1\.7, 2 /,
    );
  });
});
