//! The files that guests map, for their symbols.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use crate::perf::record::FileId;
use crate::symbols::Image;

/// Larger files are not read.
const MAX_FILE: u64 = 1 << 30;

/// Reads the file that a mapping record names.
type ReadFile = Arc<dyn Fn(&str) -> Option<Arc<[u8]>> + Send + Sync>;

/// Delivers the images of mapped files, one for each distinct file.
pub struct Images {
    read: ReadFile,
    /// Images that are no files, by the name in the record.
    special: HashMap<String, Arc<Image>>,
    cache: HashMap<String, Vec<(FileId, Arc<Image>)>>,
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").field("cached", &self.cache.len()).finish_non_exhaustive()
    }
}

impl Images {
    /// Images whose bytes `read` finds by the path in a mapping record.
    pub fn new(read: impl Fn(&str) -> Option<Arc<[u8]>> + Send + Sync + 'static) -> Images {
        Images { read: Arc::new(read), special: HashMap::new(), cache: HashMap::new() }
    }

    /// Images of the host's files. What is no regular file counts as absent.
    pub fn of_host() -> Images {
        Images::new(read_host_file)
    }

    /// Images of the host's files below the folder `root`.
    pub fn of_root(root: PathBuf) -> Images {
        Images::new(move |path| {
            read_host_file(&root.join(path.trim_start_matches('/')).to_string_lossy())
        })
    }

    /// Adds an image that is no file, such as the `[vdso]`.
    #[must_use]
    pub fn with(mut self, name: &str, bytes: Arc<[u8]>) -> Images {
        self.special.insert(name.to_owned(), Arc::new(Image::from_bytes(name, bytes)));
        self
    }

    /// The image that is mapped as `path`. The same path with another identity
    /// is another image; both show the file as it is when first read.
    pub fn get(&mut self, path: &str, file: &FileId) -> Arc<Image> {
        if let Some(image) = self.special.get(path) {
            return image.clone();
        }
        let known = self.cache.entry(path.to_owned()).or_default();
        if let Some((_, image)) = known.iter().find(|(id, _)| id == file) {
            return image.clone();
        }
        let image = if is_file(path) {
            let (read, path) = (self.read.clone(), path.to_owned());
            Image::new(path.clone(), move || read(&path))
        } else {
            Image::empty(path)
        };
        let image = Arc::new(image);
        known.push((file.clone(), image.clone()));
        image
    }
}

/// Whether a mapping's name is a path: not `[heap]`, `//anon`, `anon_inode:…`.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

fn read_host_file(path: &str) -> Option<Arc<[u8]>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return None;
    }
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    fs::File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes.into())
}
