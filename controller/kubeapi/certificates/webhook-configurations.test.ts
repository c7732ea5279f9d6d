import assert from 'node:assert/strict';
import { systemClock } from '../../../lib/process/clock.ts';
import type { KubeApi, KubeRequest } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { publishToWebhooks, WebhookPaths } from './webhook-configurations.ts';

const MUTATING = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/nodewall';
const VALIDATING = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/nodewall';
const PUBLISHED = { certificates: 'PEM', paths: new WebhookPaths(systemClock) };
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

describe('publishToWebhooks', () => {
  it('writes a missing or different caBundle', async () => {
    const { request, patches } = api({
      [MUTATING]: {
        metadata: { resourceVersion: '7' },
        webhooks: [{ clientConfig: { caBundle: ENCODED } }, { clientConfig: { service: {} } }],
      },
    });
    const result = await publishToWebhooks(request, PUBLISHED);
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
    assert.deepEqual((await publishToWebhooks(request, PUBLISHED)).changed, []);
    assert.deepEqual(patches, []);
  });

  it('writes paths where they are due: of a Service, and of a URL', async () => {
    const paths = new WebhookPaths(systemClock);
    paths.setKey('KEY');
    const path = (step: 'mutate' | 'validate' | 'use') => paths.replacement(step, '', false);
    const { request, patches } = api({
      [MUTATING]: {
        metadata: { resourceVersion: '7' },
        webhooks: [
          { name: 'mutate.nodewall.io', clientConfig: { service: { name: 's' } } },
          { name: 'mutate.example.com', clientConfig: { url: 'https://a.example:9443/mutate' } },
          { name: 'other.example.com', clientConfig: { service: { path: '/other' } } },
        ],
      },
      [VALIDATING]: {
        metadata: { resourceVersion: '8' },
        webhooks: [
          { name: 'validate.nodewall.io', clientConfig: { service: { path: path('validate') } } },
          { name: 'use.nodewall.io', clientConfig: { service: { path: '/use' } } },
        ],
      },
    });
    const { changed } = await publishToWebhooks(request, { certificates: null, paths });
    assert.deepEqual(changed, [MUTATING, VALIDATING]);
    const at = (index: number, field: string) => `/webhooks/${index}/clientConfig/${field}`;
    assert.deepEqual(
      patches.map(({ body }) => body),
      [
        [
          { op: 'test', path: '/metadata/resourceVersion', value: '7' },
          { op: 'add', path: at(0, 'service/path'), value: path('mutate') },
          { op: 'add', path: at(1, 'url'), value: `https://a.example:9443${path('mutate')}` },
        ],
        [
          { op: 'test', path: '/metadata/resourceVersion', value: '8' },
          { op: 'add', path: at(1, 'service/path'), value: path('use') },
        ],
      ],
    );
  });

  it('writes other paths with another CA', async () => {
    const [before, paths] = [new WebhookPaths(systemClock), new WebhookPaths(systemClock)];
    before.setKey('KEY');
    paths.setKey('NEW KEY');
    const path = before.replacement('use', '', false);
    const clientConfig = { service: { path }, caBundle: ENCODED };
    const { request, patches } = api({ [VALIDATING]: { webhooks: [{ name: 'use.a.b', clientConfig }] } });
    await publishToWebhooks(request, { certificates: 'PEM', paths });
    assert.deepEqual(patches, []);
    await publishToWebhooks(request, { certificates: 'NEW PEM', paths });
    const written = patches.flatMap(({ body }) => body as { path: string; value?: string }[]);
    assert.ok(written.some(({ value }) => value === paths.replacement('use', '', false)));
  });

  it('fails when the API server rejects the write', async () => {
    const request: KubeApi = async () => {
      throw new KubeError('no', { status: 403, reason: 'Forbidden' });
    };
    await assert.rejects(publishToWebhooks(request, PUBLISHED), { reason: 'Forbidden' });
  });
});
