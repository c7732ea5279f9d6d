import { hash } from 'node:crypto';

/** An in-toto Statement with the predicate SLSA provenance v1, not signed. */
interface Provenance {
  readonly _type: 'https://in-toto.io/Statement/v1';
  readonly subject: readonly { readonly name: string; readonly digest: Readonly<Record<string, string>> }[];
  readonly predicateType: 'https://slsa.dev/provenance/v1';
  readonly predicate: {
    readonly buildDefinition: {
      readonly buildType: string;
      readonly externalParameters: Readonly<Record<string, string>>;
      readonly resolvedDependencies: readonly Dependency[];
    };
    readonly runDetails: { readonly builder: { readonly id: string } };
  };
}

interface Dependency {
  readonly uri?: string;
  readonly name?: string;
  readonly digest: Readonly<Record<string, string>>;
}

interface ProvenanceFacts {
  readonly name: string;
  readonly target: string;
  /** sha256:… of the image's configuration. */
  readonly digest: string;
  /** sha256:… of each layer. */
  readonly layers: readonly string[];
  /** Where the sources are: git+https://… */
  readonly source: string;
  readonly commit: string;
  /** Files that the build reads first, and their content. */
  readonly files: Readonly<Record<string, string>>;
  /** A URI that names who built it. */
  readonly builder: string;
}

const BUILD_TYPE = 'https://nodewall.io/build/dockerfile/v1';

/** The builder and the inputs of an image. */
export function provenance(facts: ProvenanceFacts): Provenance {
  const { name, target, digest, layers, source, commit, files, builder } = facts;
  const ofFiles = Object.entries(files).map(([path, text]) => ({
    name: path,
    digest: { sha256: hash('sha256', text) },
  }));
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [
      { name, digest: { sha256: withoutName(digest) } },
      ...layers.map((layer, index) => ({
        name: `${name}/layer-${index}`,
        digest: { sha256: withoutName(layer) },
      })),
    ],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: BUILD_TYPE,
        externalParameters: { dockerfile: 'deploy/Dockerfile', target },
        resolvedDependencies: [{ uri: source, digest: { gitCommit: commit } }, ...ofFiles],
      },
      runDetails: { builder: { id: builder } },
    },
  };
}

function withoutName(digest: string): string {
  return digest.replace(/^sha256:/, '');
}
