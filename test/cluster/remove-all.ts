import type { TestCluster } from './cluster.ts';

interface List {
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
}

/** Deletes all objects of these types, which belong to no namespace. */
export async function removeAll(cluster: Pick<TestCluster, 'get' | 'remove'>, ...types: readonly string[]) {
  for (const type of types) {
    const { items } = await cluster.get<List>(type);
    await cluster.remove(type, ...items.map(({ metadata }) => metadata.name));
  }
}
