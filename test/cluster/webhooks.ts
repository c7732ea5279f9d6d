import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { ROOT } from '../structure/source-file.ts';

interface WebhookConfiguration {
  readonly webhooks: readonly { clientConfig: { service?: object; url?: string } }[];
}

/**
 * deploy/kustomize/base/webhooks.yaml as it is, but that the webhooks are at this URL and no
 * Service's.
 */
export async function webhooksAt(server: string): Promise<string> {
  const text = await readFile(join(ROOT, 'deploy/kustomize/base/webhooks.yaml'), 'utf8');
  return parseAllDocuments(text)
    .map((document) => {
      const configuration = document.toJS() as WebhookConfiguration;
      for (const { clientConfig } of configuration.webhooks) {
        clientConfig.url = server;
        delete clientConfig.service;
      }
      return stringify(configuration);
    })
    .join('---\n');
}
