import assert from 'node:assert/strict';
import type { KubeApi, KubeRequest } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { publishCaBundle } from './ca-bundle.ts';

const MUTATING = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/nodewall';
const VALIDATING = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/nodewall';
const ENCODED = Buffer.from('PEM').toString('base64');

function api(objects: Readonly<Record<string, object>>): { request: KubeApi; patches: KubeRequest[] } {
  const patches: KubeRequest[] = [];
  const request: KubeApi = async <T>(wanted: KubeRequest): Promise<T> => {
    const object = objects[wanted.path];
    if (object === undefined) throw new KubeError('not found', { status: 404, reason: 'NotFound' });
    if (wanted.method === 'PATCH') patches.push(wanted);
    return object as T;
  };
  return { request, patches };
}

describe('publishCaBundle', () => {
  it('writes a missing or different caBundle', async () => {
    const { request, patches } = api({
      [MUTATING]: {
        metadata: { resourceVersion: '7' },
        webhooks: [{ clientConfig: { caBundle: ENCODED } }, { clientConfig: { service: {} } }],
      },
    });
    const result = await publishCaBundle(request, 'PEM');
    assert.deepEqual(result, { changed: [MUTATING], absent: [VALIDATING] });
    assert.deepEqual(
      patches.map(({ body }) => body),
      [
        [
          { op: 'test', path: '/metadata/resourceVersion', value: '7' },
          { op: 'add', path: '/webhooks/1/clientConfig/caBundle', value: ENCODED },
        ],
      ],
    );
  });

  it('does not write an up-to-date caBundle', async () => {
    const { request, patches } = api({
      [VALIDATING]: { webhooks: [{ clientConfig: { caBundle: ENCODED } }] },
    });
    assert.deepEqual((await publishCaBundle(request, 'PEM')).changed, []);
    assert.deepEqual(patches, []);
  });

  it('fails when the API server rejects the write', async () => {
    const request: KubeApi = async () => {
      throw new KubeError('no', { status: 403, reason: 'Forbidden' });
    };
    await assert.rejects(publishCaBundle(request, 'PEM'), { reason: 'Forbidden' });
  });
});
