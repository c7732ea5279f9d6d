import type { KubeApi, KubeRequest } from './kube-api.ts';

/** The fields that all objects of Kubernetes have; the rest is as others wrote it. */
export interface ListedObject {
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}

interface Page {
  readonly items?: readonly ListedObject[] | null;
  readonly metadata?: { readonly continue?: string };
}

const PAGE = 500;

/**
 * The objects of a list, page by page, and whether there are more than `most`. Throws KubeError.
 *
 * @param wanted `timeout` is that of each page
 */
export async function listObjects(
  request: KubeApi,
  wanted: Pick<KubeRequest, 'path' | 'query' | 'timeout'>,
  most: number,
): Promise<{ readonly objects: readonly ListedObject[]; readonly isCut: boolean }> {
  const objects: ListedObject[] = [];
  let next = '';
  do {
    const page = await request<Page>({
      ...wanted,
      method: 'GET',
      query: { ...wanted.query, limit: String(PAGE), ...(next === '' ? {} : { continue: next }) },
    });
    objects.push(...(page.items ?? []));
    next = page.metadata?.continue ?? '';
  } while (next !== '' && objects.length < most);
  return { objects: objects.slice(0, most), isCut: next !== '' || objects.length > most };
}
