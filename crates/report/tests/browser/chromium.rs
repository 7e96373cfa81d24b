//! A small client of chromium: opens a page and evaluates expressions through the pipe of its debugging
//! protocol (a line of JSON, ended by a zero byte, each way). Nothing is downloaded, no port is opened.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    last: u64,
    /// Messages of the page's console, exceptions, and requests to the network.
    pub errors: Vec<String>,
    profile: tempfile::TempDir,
}

/// The form in which a page is viewed: on a screen in one of the colour schemes, or printed.
#[derive(Clone, Copy, Debug)]
pub enum View {
    Light,
    Dark,
    Print,
}

impl Browser {
    /// Starts headless chromium, or returns `None` if it is not installed.
    pub fn start() -> Option<Browser> {
        let program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads descriptor 3 and writes 4; a shell connects them to our pipes.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$LOG""#)
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-extensions"])
            .args(["--disable-background-networking", "--no-first-run", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("LOG", profile.path().join("log"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let from = BufReader::new(from);
        let (session, errors) = (String::new(), Vec::new());
        let mut browser = Browser { child, to, from, session, last: 0, errors, profile };
        let page = browser.send("Target.createTarget", json!({"url": "about:blank"}));
        let target = page["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        let attached = browser.send("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.send(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer; events in between are handled.
    pub fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{command}\0").as_bytes()).unwrap();
        self.to.flush().unwrap();
        loop {
            let message = self.next();
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        if bytes.pop() != Some(0) {
            let log = std::fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
            panic!("chromium ended: {log}");
        }
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let is_error = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"]
            .contains(&method);
        let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
        let is_fetched = method == "Network.requestWillBeSent" && !url.starts_with("file:");
        if is_error || is_fetched {
            self.errors.push(message["params"].to_string());
        }
        message
    }

    /// Opens a file in a window of this width, and waits until it is loaded.
    pub fn open(&mut self, file: &Path, width: u32, view: View) {
        self.set_view(width, view);
        let url = format!("file://{}", file.display());
        let opened = self.send("Page.navigate", json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{opened}");
        loop {
            if self.next()["method"] == "Page.loadEventFired" {
                break;
            }
        }
    }

    /// Sets the width of the window and the view of the open page.
    pub fn set_view(&mut self, width: u32, view: View) {
        let size =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500});
        self.send("Emulation.setDeviceMetricsOverride", size);
        let (media, scheme) = match view {
            View::Light => ("screen", "light"),
            View::Dark => ("screen", "dark"),
            View::Print => ("print", "light"),
        };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.send("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let answer = self.send("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses a key, as a user without a mouse does.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.send("Input.dispatchKeyEvent", params);
        }
    }

    /// Saves a picture of the first `height` pixels, if FSDYNO_SHOTS names a folder.
    pub fn save_screenshot(&mut self, name: &str, width: u32, height: u32) {
        let Some(folder) = std::env::var_os("FSDYNO_SHOTS") else { return };
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let shot = self.send("Page.captureScreenshot", params);
        let coded = Path::new(&folder).join(name).with_extension("base64");
        std::fs::write(coded, shot["data"].as_str().unwrap()).unwrap();
    }

    /// The printed page, as PDF in Base64.
    pub fn print_pdf(&mut self) -> String {
        let printed = self.send("Page.printToPDF", json!({"printBackground": false}));
        printed["data"].as_str().unwrap().to_string()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its child processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
