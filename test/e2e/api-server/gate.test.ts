import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gateSetting } from '../../../controller/kubeapi/configmap/feature-gate.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { ROOT } from '../../structure/source-file.ts';
import { apiServer } from '../labs.ts';

const DEPLOY = join(ROOT, 'deploy');
const SYSTEM = '--namespace=nodewall-system';
/** The ways of kubectl to apply the same again. */
const WAYS = [[], ['--server-side'], ['--server-side', '--force-conflicts']] as const;
/** As the base of version 0.1.0 had it. */
const OLD = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: nodewall-config
  namespace: nodewall-system
  labels: {app.kubernetes.io/part-of: nodewall}
data:
  config.yaml: |
    featureGates:
      NodeNetworkPolicy: false
`;
const PATCH = '{"data":{"config.yaml":"featureGates: {NodeNetworkPolicy: true}\\n"}}';

interface ConfigMap {
  readonly data: Readonly<Record<string, string>>;
}

describe('the feature gate and kubectl apply, on a real API server', function () {
  this.timeout(180_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  before(async () => {
    cluster = begun();
    again = await configMapsOf('base', 1);
    enforced = await configMapsOf('overlays/enforce', 2);
  });

  async function kubectl(args: readonly string[], stdin?: string): Promise<void> {
    const { code, stderr } = await cluster.kubectl(args, stdin === undefined ? {} : { stdin });
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
  }

  const apply = (way: readonly string[], ...what: readonly string[]): Promise<void> =>
    kubectl(['apply', ...way, ...what]);
  const base = ['-k', join(DEPLOY, 'kustomize/base')];
  /** Once the base is applied, its ConfigMaps alone: the rest takes time, and has no gate. */
  let again: readonly string[];
  /** The same of overlay enforce. */
  let enforced: readonly string[];

  /** Flags of kubectl for the ConfigMaps of a folder of kustomize, which must be so many. */
  async function configMapsOf(folder: string, count: number): Promise<readonly string[]> {
    const { stdout } = await cluster.kubectl(['kustomize', join(DEPLOY, 'kustomize', folder)]);
    const configMaps = stdout.split('\n---\n').filter((one) => /^kind: ConfigMap$/m.test(one));
    assert.equal(configMaps.length, count, stdout);
    const path = join(cluster.folder, `${folder.replace('/', '-')}.yaml`);
    await writeFile(path, configMaps.join('\n---\n'));
    return ['-f', path];
  }

  const gate = async (): Promise<boolean | null> => {
    const { data } = await cluster.get<ConfigMap>('configmap', 'nodewall-config', SYSTEM);
    return gateSetting(data).enabled;
  };

  for (const first of WAYS) {
    it(`kubectl apply ${first.join(' ')} of the base is as good as the other ways, before and after it is switched on`, async () => {
      await apply(first, ...base);
      const missing = await cluster.kubectl(['get', 'configmap', 'nodewall-config', SYSTEM]);
      assert.match(missing.stderr, /NotFound/);
      for (const on of [
        () => apply([], '-f', join(DEPLOY, 'gate/on.yaml')),
        () => apply(['--server-side', '--force-conflicts'], '-f', join(DEPLOY, 'gate/on.yaml')),
        () => apply(first, ...enforced),
      ]) {
        await on();
        assert.equal(await gate(), true);
        await apply(first, ...again);
        assert.equal(await gate(), true);
        await apply([], '-f', join(DEPLOY, 'gate/off.yaml'));
        assert.equal(await gate(), false);
      }
      // What was applied client-side may be applied again by force: all of it, or the next way
      // fails.
      await apply(['--server-side', '--force-conflicts'], ...(first.length === 0 ? base : again));
      await cluster.remove('configmap', 'nodewall-config', SYSTEM);
    });
  }

  for (const way of WAYS) {
    it(`an upgrade from a base that had it, by apply ${way.join(' ')}, leaves it on`, async () => {
      await kubectl(['apply', ...way, '-f', '-'], OLD);
      await kubectl(['patch', 'configmap', 'nodewall-config', SYSTEM, '--type=merge', `--patch=${PATCH}`]);
      await apply(['--server-side', '--force-conflicts'], ...again);
      for (const other of WAYS) {
        await apply(other, ...again);
        assert.equal(await gate(), true);
      }
      await cluster.remove('configmap', 'nodewall-config', SYSTEM);
    });
  }

  it('survives pruning by the labels of nodewall', async () => {
    await apply([], '-f', join(DEPLOY, 'gate/on.yaml'));
    await apply([], ...base, '--prune', '-l', 'app.kubernetes.io/part-of=nodewall');
    assert.equal(await gate(), true);
  });
});
